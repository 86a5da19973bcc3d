/* SPDX-License-Identifier: MIT */
/*
 * Bandwidth limits: token buckets that connections share, and the rate limit of one connection.
 *
 * A bucket is filled at a number of bytes per second, and holds at most its burst. A connection
 * that wants bytes takes them immediately, even if the bucket is empty, and gets a place in the
 * stream of all bytes that ever went into the bucket. The bytes may be moved once the bucket has
 * been filled up to that place. A limit is therefore never exceeded, not by one byte: at any time,
 * at most the burst plus the rate times the time has moved. Waiting connections are served in order
 * of arrival, each for a chunk of at most a fiftieth of a second, so connections that always want
 * more get equal shares. None is woken before its time, so a limit costs some fifty wake-ups a
 * second, however many connections wait for it.
 *
 * Datagrams cannot wait, so one that comes too early is dropped. While connections wait, every byte
 * of the bucket is taken in advance, and a datagram would always be too early. All datagrams
 * together therefore do what one connection does: they take a chunk in advance, and those that come
 * once its place is reached may use it up. They get at most as much as one connection that waits
 * for this bucket alone, and the bytes are those that connections would have moved instead, so the
 * bound above holds, from the beginning on. They take the next chunk when less than one is left, so
 * a few small datagrams find room all the time. One that is larger than a chunk needs several, and
 * may never find them among small ones, each of which uses up what was saved. The first ones that
 * find connections waiting are lost. What is not used stays, also through a pause, and passes in
 * addition to the burst after it: at most a chunk beside what the largest datagram takes. Rejected:
 * a debt of datagrams, because it exceeds the limit, and only a rate of its own would bound their
 * share; a chunk for each session, because each forged address would take one in vain; and saving
 * for a large datagram that was dropped, because it may never come again, and all others would have
 * to wait for it.
 *
 * Places are bytes, not times, so a limit can change while connections wait, and applies
 * immediately. Rejected: times (the generic cell rate algorithm, as in sources.hpp). That needs one
 * number instead of a lock, but a connection that waits at an old rate would wait out its time, and
 * rounding errors would add up.
 *
 * Any task calls; none parks. A bucket's lock is held for some nanoseconds, once per chunk.
 */
#ifndef RELAY_BANDWIDTH_HPP
#define RELAY_BANDWIDTH_HPP

#include "config/config.hpp"
#include "stats/counters.hpp"

#include <sennit/relay.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace relay
{

class bucket
{
public:
	/* Sets the limit; per_second 0 means none. A new limit begins with a full bucket. */
	void set(std::uint64_t per_second, std::uint64_t burst, std::int64_t now) noexcept;

	/* Whether set() would change nothing. Rate and burst may be of different moments; the next
	 * call soon corrects that. */
	bool has(std::uint64_t per_second, std::uint64_t burst) const noexcept
	{
		return per_second_.load(std::memory_order_relaxed) == per_second &&
		       (per_second == 0 || burst_.load(std::memory_order_relaxed) == burst);
	}

	/* The most bytes to take in one call, to be fair to others; 0: there is no limit. */
	std::size_t most() const noexcept;

	/* Takes bytes. Returns the place of the last one. */
	std::uint64_t take(std::uint64_t bytes, std::int64_t now) noexcept;
	void give_back(std::uint64_t bytes) noexcept;

	/* The same for a datagram. Returns false if it may not be moved now; a chunk may then have
	 * been taken in advance. */
	bool take_at_once(std::uint64_t bytes, std::int64_t now) noexcept;

	/* When the bytes up to that place may be moved; in the past if they may be now. */
	std::int64_t when(std::uint64_t place) const noexcept;

	/* Whether it is as if nothing had ever been taken, or there is no limit. */
	bool is_full(std::int64_t now) noexcept;

private:
	void fill(std::int64_t now) noexcept;
	std::uint64_t filled_at(std::int64_t now) const noexcept;

	mutable std::mutex lock_; /* guards the fields; the two atomic ones are read without it */
	std::atomic<std::uint64_t> per_second_{0};
	std::atomic<std::uint64_t> burst_{0};
	std::uint64_t taken_ = 0;
	/* filled_ bytes had gone into the bucket at time_. time_ moves by whole seconds, so that
	 * nothing is lost by rounding. */
	std::uint64_t filled_ = 0;
	std::int64_t time_ = 0;
	/* What datagrams have taken in advance: bytes that may be moved now, and a chunk, which may
	 * be moved when its place is reached; 0: none. */
	std::uint64_t saved_ = 0;
	std::uint64_t ahead_ = 0;
	std::uint64_t place_ = 0;
};

/* One bucket for each direction, by enum sn_relay_direction. */
using buckets = std::array<bucket, 2>;

void set(buckets &both, const bandwidth_config &to, std::int64_t now) noexcept;

/* The limit that each connection or each source has for itself. A reload writes it while
 * connections read it. */
class allowance
{
public:
	void set(const bandwidth_config &to) noexcept;
	/* Rate and burst may be read at different moments; the next read soon corrects that. */
	std::uint64_t per_second(unsigned way) const noexcept
	{
		return ways_[way].per_second.load(std::memory_order_relaxed);
	}
	std::uint64_t burst(unsigned way) const noexcept
	{
		return ways_[way].burst.load(std::memory_order_relaxed);
	}
	bool is_there() const noexcept
	{
		return per_second(SN_RELAY_A_TO_B) != 0 || per_second(SN_RELAY_B_TO_A) != 0;
	}

private:
	struct way {
		std::atomic<std::uint64_t> per_second{0};
		std::atomic<std::uint64_t> burst{0};
	};
	std::array<way, 2> ways_;
};

/* Sets the bucket of one direction if it has another limit than that. It compares with the bucket
 * itself, because others may have set a bucket that is shared. */
void follow(const allowance &limit, unsigned way, bucket &which) noexcept;

/* How often connections waited for bandwidth, for how long in total, and how many wait now. */
struct wait_counters {
	counter times;
	counter ns;                 /* of waits that have ended */
	std::array<counter, 2> now; /* connections, by enum sn_relay_direction */
};

/*
 * The rate limit of one connection, for sn::relay(): the slowest of its listener's, its backend's,
 * its source's and its own limit. Without limits it costs a few loads for each pass of copying.
 */
class rate_limiter
{
public:
	struct limits {
		const allowance &each;        /* connection */
		const allowance &each_source; /* of_source follows it */
		buckets &of_listener;
		buckets &of_backend;
		buckets *of_source;               /* null: the source has no limit */
		wait_counters &waits_of_listener; /* of waits for any of the limits */
		wait_counters &waits_of_backend;  /* of waits for the backend's limit */
		counter &throttled;               /* waits in the whole process */
	};

	explicit rate_limiter(const limits &by) noexcept : by_(by) {}
	rate_limiter(const rate_limiter &) = delete;
	rate_limiter &operator=(const rate_limiter &) = delete;
	/* Call it after all copying has ended. */
	~rate_limiter();

	const sn_relay_rate_limit *calls() const noexcept { return &calls_; }

private:
	static constexpr std::size_t limits_most = 4;
	/* The places that one direction last took in its own bucket, the listener's, the backend's
	 * and the source's. */
	struct direction {
		bucket own;
		std::array<std::uint64_t, limits_most> places{};
		std::array<bool, limits_most> limited{};
		std::int64_t waiting_since = 0; /* 0: it does not wait */
		bool waits_for_backend = false;
	};
	static constexpr std::size_t backends = 2; /* index */

	/* Null: there is none. */
	std::array<bucket *, limits_most> all(unsigned way) noexcept
	{
		return {&ways_[way].own, &by_.of_listener[way], &by_.of_backend[way],
			by_.of_source ? &(*by_.of_source)[way] : nullptr};
	}
	void follow_limits(unsigned way) noexcept;
	std::size_t most(unsigned way) noexcept;
	std::int64_t take(unsigned way, std::int64_t bytes) noexcept;
	void waited(unsigned way, std::int64_t now) noexcept;

	const limits by_;
	std::array<direction, 2> ways_; /* each owned by the task that copies in this direction */
	const sn_relay_rate_limit calls_ = {
		[](void *arg, sn_relay_direction way) {
			return static_cast<rate_limiter *>(arg)->most(way);
		},
		[](void *arg, sn_relay_direction way, std::int64_t bytes) {
			return static_cast<rate_limiter *>(arg)->take(way, bytes);
		},
		this,
	};
};

} // namespace relay

#endif
