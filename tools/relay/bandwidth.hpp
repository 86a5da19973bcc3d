/* SPDX-License-Identifier: MIT */
/*
 * Limits of bytes in a time: buckets that connections share, and the pace of one connection.
 *
 * A bucket is filled with so many bytes a second, and holds at most its burst. Who wants bytes takes
 * them at once, whether they are there or not, and gets a place in the stream of all bytes that ever
 * went into the bucket; they may be moved when that place has gone in. So a limit is never exceeded,
 * not by a byte: what has moved by any time is at most the burst and what that time is worth. Those
 * that wait are served in the order in which they came, each for a chunk of at most a fiftieth of a
 * second: whoever always wants more gets an equal share. Nobody is woken before its time, so a limit
 * costs some fifty wake-ups a second, however many wait for it.
 *
 * Places are bytes, not times, so a limit can change while some wait, and holds from then on.
 * Rejected: times (the generic cell rate algorithm, as in sources.hpp): one number instead of a lock,
 * but who waits under a former rate would wait it out, and rounding would add up.
 *
 * Any task calls; none parks. A bucket's lock is held for some nanoseconds, once for each chunk.
 */
#ifndef RELAY_BANDWIDTH_HPP
#define RELAY_BANDWIDTH_HPP

#include "config.hpp"
#include "counters.hpp"

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
	/* From now on; per_second 0 is no limit. It begins full. */
	void set(std::uint64_t per_second, std::uint64_t burst, std::int64_t now) noexcept;

	/* Most bytes to take at once, for others' sake; 0: there is no limit. */
	std::size_t most() const noexcept;

	/* The place of the last of so many bytes. */
	std::uint64_t take(std::uint64_t bytes, std::int64_t now) noexcept;
	void give_back(std::uint64_t bytes) noexcept;

	/* When the bytes up to that place may be moved: in the past, if they may. */
	std::int64_t when(std::uint64_t place) const noexcept;

private:
	void fill(std::int64_t now) noexcept;

	mutable std::mutex lock_; /* of all, save looking at per_second_ */
	std::atomic<std::uint64_t> per_second_{0};
	std::uint64_t burst_ = 0;
	std::uint64_t taken_ = 0;
	/* So much has gone in until then. The time moves by whole seconds, so that nothing is lost
	 * by rounding. */
	std::uint64_t filled_ = 0;
	std::int64_t time_ = 0;
};

/* One for each direction, by enum sn_relay_direction. */
using buckets = std::array<bucket, 2>;

void set(buckets &both, const bandwidth_config &to, std::int64_t now) noexcept;

/* What each connection may have, to be read by all while a reload changes it. */
class allowance
{
public:
	void set(const bandwidth_config &to) noexcept;
	/* Rate and burst may be of different moments; whoever asks again soon gets it right. */
	std::uint64_t per_second(unsigned way) const noexcept
	{
		return ways_[way].per_second.load(std::memory_order_relaxed);
	}
	std::uint64_t burst(unsigned way) const noexcept
	{
		return ways_[way].burst.load(std::memory_order_relaxed);
	}

private:
	struct way {
		std::atomic<std::uint64_t> per_second{0};
		std::atomic<std::uint64_t> burst{0};
	};
	std::array<way, 2> ways_;
};

/* How often somebody had to wait for bandwidth, for how long altogether, and who does now. */
struct wait_counters {
	counter times;
	counter ns;                 /* of waits that are over */
	std::array<counter, 2> now; /* connections, by enum sn_relay_direction */
};

/*
 * The pace of one connection, for sn::relay(): the slowest of what its listener, its backend and it
 * may have. Without limits it costs a few loads for each spell of copying.
 */
class pacer
{
public:
	struct limits {
		const allowance &each; /* connection */
		buckets &of_listener;
		buckets &of_backend;
		wait_counters &waits_of_listener; /* for any limit */
		wait_counters &waits_of_backend;  /* for the backend's */
		counter &throttled;               /* times, of the process */
	};

	explicit pacer(const limits &by) noexcept : by_(by) {}
	pacer(const pacer &) = delete;
	pacer &operator=(const pacer &) = delete;
	/* When nobody copies any more. */
	~pacer();

	const sn_relay_pace *calls() const noexcept { return &calls_; }

private:
	/* What one direction has taken last, of its own bucket, the listener's and the backend's. */
	struct direction {
		bucket own;
		std::uint64_t own_rate = 0;
		std::uint64_t own_burst = 0;
		std::array<std::uint64_t, 3> places{};
		std::array<bool, 3> limited{};
		std::int64_t waiting_since = 0; /* 0: it does not */
		bool waits_for_backend = false;
	};
	static constexpr std::size_t backends = 2; /* index */

	std::array<bucket *, 3> all(unsigned way) noexcept
	{
		return {&ways_[way].own, &by_.of_listener[way], &by_.of_backend[way]};
	}
	std::size_t most(unsigned way) noexcept;
	std::int64_t take(unsigned way, std::int64_t bytes) noexcept;
	void waited(unsigned way, std::int64_t now) noexcept;

	const limits by_;
	std::array<direction, 2> ways_; /* each the task's that copies there */
	const sn_relay_pace calls_ = {
		[](void *arg, sn_relay_direction way) {
			return static_cast<pacer *>(arg)->most(way);
		},
		[](void *arg, sn_relay_direction way, std::int64_t bytes) {
			return static_cast<pacer *>(arg)->take(way, bytes);
		},
		this,
	};
};

} // namespace relay

#endif
