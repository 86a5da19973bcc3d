// SPDX-License-Identifier: MIT
//
// The driver: a plain thread that changes the process's environment by a seed, while phases of
// loads run (loads.hpp): first each kind of change once, in random order, then any at random. It
// raises again what it has lowered.
#ifndef SENNIT_TESTS_HOSTILE_DRIVER_HPP
#define SENNIT_TESTS_HOSTILE_DRIVER_HPP

#include <cstdint>

namespace hostile
{

// Starts the thread and those that flood. Bit n of `enabled` is value n of enum Action. Once,
// before the runtime.
void driver_start(uint64_t seed, uint32_t enabled);

// Called in the first task of each life of the runtime, when it has begun and before it ends.
// driver_life_ends() undoes what is in force, waits until no plain thread uses the runtime, and
// checks that nothing they sent was lost.
void driver_life_begins();
void driver_life_ends();

// Whether each enabled change has been made.
bool driver_had_all();

} // namespace hostile

#endif
