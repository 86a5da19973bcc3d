// SPDX-License-Identifier: MIT
//
// The driver: a plain thread that changes the process's environment while phases of loads run
// (loads.hpp). A seed determines the changes: first each kind once, in random order, and then any
// of them at random. The driver raises all limits again that it has lowered.
#ifndef SENNIT_TESTS_HOSTILE_DRIVER_HPP
#define SENNIT_TESTS_HOSTILE_DRIVER_HPP

#include <cstdint>

namespace hostile
{

// Starts the driver and the threads that flood. Bit n of `enabled` is value n of enum Action.
// Called once, before the runtime begins.
void driver_start(uint64_t seed, uint32_t enabled);

// Called in the first task of each life of the runtime, when it has begun and before it ends.
// driver_life_ends() undoes all changes, waits until no plain thread uses the runtime, and checks
// that nothing they sent was lost.
void driver_life_begins();
void driver_life_ends();

// Whether each enabled change has been made.
bool driver_had_all();

} // namespace hostile

#endif
