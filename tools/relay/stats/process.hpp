/* SPDX-License-Identifier: MIT */
/*
 * The resources that this process uses, as Prometheus' client libraries report them (process_...).
 */
#ifndef RELAY_PROCESS_HPP
#define RELAY_PROCESS_HPP

#include <chrono>
#include <cstdint>

namespace relay
{

/* Values that the system does not report, such as without /proc, are 0. */
struct process_use {
	std::chrono::microseconds cpu{};     /* user and system time, of all threads */
	std::chrono::milliseconds started{}; /* since 1970 */
	std::uint64_t resident = 0;          /* bytes of memory */
	std::uint64_t address_space = 0;     /* bytes */
	std::uint64_t threads = 0;
	std::uint64_t descriptors = 0; /* open now */
	std::uint64_t descriptor_limit = 0;
};

/* Reads files of /proc, which may block for a short time; call it by sn::blocking() in a task. */
process_use read_process_use();

} // namespace relay

#endif
