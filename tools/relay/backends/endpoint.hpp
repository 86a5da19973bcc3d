/* SPDX-License-Identifier: MIT */
/*
 * An endpoint: one address that connections to a backend go to, with its health and its counters.
 *
 * A backend that is given by address is one endpoint. A name has one for each address to which it
 * resolves (names.hpp). Everything that is known about the success of connections belongs to the
 * endpoint, because one address of a name can be dead while the others work.
 *
 * As in counters.hpp, any task may count, without waiting. An endpoint is shared by the pools of a
 * group before and after a reload, so that both respect its health and its limit.
 */
#ifndef RELAY_ENDPOINT_HPP
#define RELAY_ENDPOINT_HPP

#include "backends/agent_state.hpp"
#include "backends/bandwidth.hpp"
#include "stats/counters.hpp"
#include "stats/snapshot.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>

namespace relay
{

struct flow_counters {
	busy_counter bytes;
	counter userspace;
	counter splice;

	void add_paths(const sn_copy_result &copied) noexcept
	{
		userspace.add(copied.bytes_userspace);
		splice.add(copied.bytes_spliced);
	}
	flow read() const noexcept { return {bytes.get(), userspace.get(), splice.get()}; }
};

/* The result of active checks of an endpoint. */
enum class checked : unsigned char { unknown, up, down };

/* The result of a check whose answer has an unexpected HTTP status; 0: it is not an HTTP answer. */
std::error_code status_error(unsigned status) noexcept;

/* The results of a check whose answer is too long to be searched, and of one whose search takes
 * more steps, time or memory than it may (base/regex.hpp). */
std::error_code long_answer_error() noexcept;
std::error_code costly_answer_error() noexcept;

/* The result of a check whose TLS handshake has failed with that error. */
std::error_code tls_error(const std::error_code &of) noexcept;

/* The result of a check of that address, or of connecting to it, in words. */
std::string check_error_text(int error, std::string_view address);

struct endpoint_counters {
	/* Connections, including those being made. balance.hpp counts it, as it is also a limit. */
	std::atomic<std::uint64_t> active{0};
	/* How many of the active ones have no client, including those being made; ready.hpp
	 * counts them. */
	counter ready;
	/* The endpoint is ejected until the first, and slow until the second, as of sn_now().
	 * Both are set by balance.cc. */
	std::atomic<std::int64_t> ejected_until{INT64_MIN};
	std::atomic<std::int64_t> slow_until{INT64_MIN};
	std::atomic<std::uint32_t> failures_in_a_row{0};
	/* The beginning of the oldest attempt to connect that has no answer; 0: none is waiting.
	 * As of sn_now(). Written by asked(), answered(), and note_probe() in balance.cc, which
	 * moves it with each probe of a silent endpoint. */
	std::atomic<std::int64_t> unanswered_since{0};
	/* Set under `results` by the task that checks the endpoint, and where its check is
	 * forgotten. */
	std::atomic<relay::checked> check{relay::checked::unknown};
	std::atomic<std::uint32_t> answers_in_a_row{0}; /* results that contradict `check` */
	std::atomic<std::int64_t> down_since{0};        /* as of sn_now(), while it is down */
	std::atomic<int> last_error{0};                 /* 0: success */
	std::atomic<std::int64_t> last_check{0};        /* since 1970; 0: none yet */
	counter checks;
	counter check_failures;
	counter connected;
	counter failures;
	counter ejections;
	buckets bandwidth;
	wait_counters throttled; /* by its own limit */
	flow_counters to_backend;
	flow_counters to_client;
};

/* The number of clients' connections. Both counters may change while they are read. */
inline std::uint64_t in_use(const endpoint_counters &of) noexcept
{
	const std::uint64_t ready = of.ready.get();
	const std::uint64_t all = of.active.load(std::memory_order_relaxed);
	return all > ready ? all - ready : 0;
}

struct endpoint {
	endpoint(std::string of, std::string at);

	const std::string backend; /* as configured */
	const std::string address; /* the one that connections go to */
	const bool is_local;       /* a Unix socket */
	const std::uint64_t hash;  /* of the address */
	endpoint_counters counts;
	agent_state agent;
	/* Round robin's credit. Relaxed, because for a moment after a reload, two pools of the
	 * same group may choose at the same time, and a mixed order is as good as any. */
	std::atomic<std::int64_t> credit{0};
	/* How often it has returned to its name and had to be checked again (names.hpp). Changes
	 * under `results`. */
	std::atomic<std::uint64_t> returns{0};
	/* Whether the answers of checks count. Under `results`. */
	bool is_checked = true;
	/* Held for microseconds while a result is recorded or forgotten, so that none of before a
	 * return, or before the checks were turned off, is recorded after it. */
	std::mutex results;

	/* Whether it is one of the addresses of a name. */
	bool resolved() const noexcept { return backend != address; }
	/* The name in messages: the backend as configured, with the address if that differs. */
	std::string name() const { return resolved() ? backend + " (" + address + ')' : backend; }
};

/* asked(): a connection to the endpoint is about to be made. not_asked(), with the result of
 * asked(): this machine lacked a resource for the connection. answered(): a connection was made,
 * refused or reset, so the machine is there. Any task may call these while other attempts are
 * under way, because one answer is as good as another. */
std::int64_t asked(endpoint &to) noexcept;
void not_asked(endpoint &of, std::int64_t since) noexcept;
void answered(endpoint &by) noexcept;

both_ways read_waiting(const wait_counters &of) noexcept;

/*
 * Reads the endpoint's present state. is_checked: there are checks, so their results count.
 */
void read_health(const endpoint &of, bool is_checked, endpoint_snapshot &into);

/* Adds the totals and the connections of one endpoint to another's. */
void add_totals(endpoint_snapshot &to, const endpoint_snapshot &more) noexcept;

} // namespace relay

#endif
