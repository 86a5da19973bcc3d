/* SPDX-License-Identifier: MIT */
#include "stats/counters.hpp"

#include <sennit/run.h>

#include <atomic>

namespace relay
{
namespace
{

/* The line of the calling thread, from 1; 0: it has none yet. In the usual model for programs, the
 * linker (binutils 2.40) says on riscv64 that the code has to be relocated. */
[[gnu::tls_model("initial-exec")]] thread_local unsigned line_of_thread = 0;

} // namespace

unsigned busy_counter::line() noexcept
{
	static std::atomic<unsigned> threads{0};
	if (line_of_thread == 0) [[unlikely]]
		line_of_thread = 1 + threads.fetch_add(1, std::memory_order_relaxed) % lines;
	return line_of_thread - 1;
}

event_fields to_fields(const counters &now, std::uint64_t bytes_to_backend,
		       std::uint64_t bytes_to_client)
{
	struct sn_run_stats runtime = {};
	event_fields all;
	const auto add = [&all](const char *name, std::uint64_t value) {
		all.emplace_back(name, value);
	};

	/* The call fails before the first sn_run(), when zero is right. */
	static_cast<void>(sn_run_stats(&runtime));
	add("accepted", now.accepted.get());
	add("active", now.active.get());
	add("connect_failed", now.connect_failed.get());
	add("bytes_to_backend", bytes_to_backend);
	add("bytes_to_client", bytes_to_client);
	add("resets", now.resets.get());
	add("idle_timeouts", now.idle_timeouts.get());
	add("backend_down", now.backend_down.get());
	add("killed", now.killed.get());
	add("cut", now.cut.get());
	add("retries", now.retries.get());
	add("ejections", now.ejections.get());
	add("check_failures", now.check_failures.get());
	add("throttled", now.throttled.get());
	add("refused", now.refused.get());
	add("denied", now.denied.get());
	add("rate_refused", now.rate_refused.get());
	add("bad_openings", now.bad_openings.get());
	add("certificates_left_out", now.certificates_left_out.get());
	add("no_route", now.no_route.get());
	add("lifetimes", now.lifetimes.get());
	add("no_memory", now.no_memory.get());
	add("accept_pauses", runtime.accept_pauses + now.accept_holds.get());
	add("reloads", now.reloads.get());
	add("reload_failures", now.reload_failures.get());
	return all;
}

} // namespace relay
