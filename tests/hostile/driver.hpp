// SPDX-License-Identifier: MIT
//
// The driver: a plain thread that changes the process's surroundings by a seed, while phases of loads run
// (loads.hpp): first each kind of change once, in some order, then at random. What it lowers it raises again.
#ifndef SENNIT_TESTS_HOSTILE_DRIVER_HPP
#define SENNIT_TESTS_HOSTILE_DRIVER_HPP

#include <cstdint>

namespace hostile
{

// Starts the thread and those that flood; bit n of enabled: enum Action's n. Once, before the runtime.
void driver_start(uint64_t seed, uint32_t enabled);

// Called in the first task of each life of the runtime: it has begun, and is to end. The latter undoes what
// is in force, waits until no plain thread uses the runtime, and checks that nothing of theirs was lost.
void driver_life_begins();
void driver_life_ends();

// Each enabled change has been made, or cannot be.
bool driver_had_all();

} // namespace hostile

#endif
