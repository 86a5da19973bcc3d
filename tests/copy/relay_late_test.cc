// SPDX-License-Identifier: MIT
//
// Deadlines and idle limits that pass while the process does nothing else: they do not prove that
// the peers were silent, so a relay or a copy first looks. Here the only processor stays with the
// task that makes something arrive, until the limit is over. The poller reports the event only
// afterwards.
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>

#include <poll.h>

#include <sennit/copy.h>
#include <sennit/relay.h>

#include "support/net.h"

namespace
{

using namespace test;

// Short enough for the monitor not to take the processor of a task that computes for so long.
constexpr int64_t limit = (TEST_TSAN ? 8 : 4) * test::ms;

// left.client and right.client are the peers.
struct Between {
	explicit Between(Listener &listener) : left(listener), right(listener) {}

	Pair left, right;
	struct sn_relay_result relayed = {};
	std::atomic<bool> ended{false};
};

int count(sn_tcp *conn)
{
	static char buf[256 << 10];
	int total = 0;

	for (ssize_t n; (n = recv(sn_tcp_fd(conn), buf, sizeof buf, MSG_DONTWAIT)) > 0;)
		total += int(n);
	return total;
}

/*
 * run() is what is tested, and begun() returns whether it waits. come() makes something arrive,
 * must not park, but may yield, and returns whether it has arrived. If that took until the limit
 * may have been over, which is counted from before run() began, the round does not count: where the
 * machine stalls this thread, another one gets the processor, and run() may look before anything
 * has come. Otherwise check() is called when run() has ended.
 */
void rounds(const std::function<void(Between &)> &prepare, int (*run)(Between &),
	    const std::function<bool(Between &)> &begun, const std::function<bool(Between &)> &come,
	    const std::function<void(Between &)> &check)
{
	int counted = 0;

	test::run(1, [&] {
		for (int round = 0; round < 200 && counted < 5; round++) {
			Listener listener;
			Between between(listener);

			prepare(between);
			const int64_t earliest = sn_now() + limit;
			Task task([&] {
				run(between);
				between.ended = true;
			});
			while (!between.ended && !begun(between))
				sn_yield();
			const int64_t over = sn_now() + limit / 8 * 10;
			const bool in_time = come(between) && sn_now() < earliest;
			while (sn_now() < over)
				;
			task.join();
			if (!in_time)
				continue;
			counted++;
			check(between);
		}
	});
	EXPECT_GT(counted, 0) << "the machine stalls too much";
}

int relay(Between &between)
{
	struct sn_relay_options options = {};

	options.idle_timeout = limit;
	return sn_relay(sn_tcp_stream(between.left.server), sn_tcp_stream(between.right.server),
			&between.relayed, &options);
}

void nothing(Between &) {}

bool waits_for_either(Between &between)
{
	return probe_fd_waiting(between.left.server, 0) ||
	       probe_fd_waiting(between.right.server, 0);
}

bool send_one(Between &between)
{
	EXPECT_EQ(1, sn_tcp_write(between.left.client, "x", 1));
	return true;
}

TEST(RelayLate, PassesOnWhatHasCome)
{
	rounds(nothing, relay, waits_for_either, send_one, [](Between &between) {
		EXPECT_EQ(1u, between.relayed.directions[SN_RELAY_A_TO_B].bytes_written);
		EXPECT_EQ(1, count(between.right.client));
		EXPECT_EQ(SN_RELAY_IDLE, between.relayed.end) << "no more bytes came after that";
	});
}

TEST(RelayLate, PassesOnAnEndThatHasCome)
{
	rounds(
		nothing, relay, waits_for_either,
		[](Between &between) {
			EXPECT_EQ(0, sn_tcp_shutdown(between.left.client, SN_SHUT_WRITE));
			return true;
		},
		[](Between &between) {
			char c;

			EXPECT_EQ(0, recv(sn_tcp_fd(between.right.client), &c, 1, MSG_DONTWAIT));
			EXPECT_EQ(SN_RELAY_IDLE, between.relayed.end);
		});
}

// The relay has read everything that came, and waits for room.
void fill_and_send(Between &between)
{
	test::fill(between.right.server);
	EXPECT_EQ(1, sn_tcp_write(between.left.client, "x", 1));
}

bool waits_for_room(Between &between)
{
	return probe_fd_waiting(between.right.server, 1) != 0;
}

bool make_room(Between &between)
{
	struct pollfd room = {sn_tcp_fd(between.right.server), POLLOUT, 0};
	const int64_t end = sn_now() + limit;
	int filled = 0;

	// The sender learns a little later that its peer has read.
	do
		filled += count(between.right.client);
	while (poll(&room, 1, 0) == 0 && sn_now() < end);
	EXPECT_GT(filled, 0);
	return room.revents == POLLOUT;
}

void expect_that_room_was_used(Between &between)
{
	const auto &direction = between.relayed.directions[SN_RELAY_A_TO_B];

	EXPECT_EQ(1u, direction.bytes_read);
	EXPECT_EQ(1u, direction.bytes_written);
}

TEST(RelayLate, UsesRoomThatWasMade)
{
	rounds(fill_and_send, relay, waits_for_room, make_room, expect_that_room_was_used);
}

// Whether the byte that was sent has arrived, after what filled the connection.
bool has_passed_on(Between &between)
{
	const int fd = sn_tcp_fd(between.right.client);
	char buf[4096];
	bool found = false;

	for (ssize_t n; (n = recv(fd, buf, sizeof buf, MSG_DONTWAIT)) > 0;)
		found |= memchr(buf, 'x', size_t(n)) != nullptr;
	return found;
}

// The task knows of the room in time, but gets a processor only afterwards.
TEST(RelayLate, UsesRoomOfWhichItsTaskWasToldInTime)
{
	rounds(
		fill_and_send, relay, waits_for_room,
		[](Between &between) {
			const int64_t end = sn_now() + limit;

			if (!make_room(between))
				return false;
			while (waits_for_room(between) && sn_now() < end)
				sn_yield();
			return !waits_for_room(between) && !has_passed_on(between);
		},
		expect_that_room_was_used);
}

// A limit that the caller implements itself: progress moves both deadlines.
int copy(Between &between)
{
	struct sn_copy_result result;
	const auto move = [](void *arg, size_t) {
		auto *self = static_cast<Between *>(arg);

		EXPECT_EQ(0, sn_tcp_set_read_deadline(self->left.server, sn_now() + limit));
		EXPECT_EQ(0, sn_tcp_set_write_deadline(self->right.server, sn_now() + limit));
	};

	move(&between, 0);
	const int err = sn_copy(sn_tcp_stream(between.right.server),
				sn_tcp_stream(between.left.server), -1, move, &between, &result);
	EXPECT_EQ(-ETIMEDOUT, err);
	EXPECT_EQ(SN_COPY_READ, result.failed);
	EXPECT_EQ(result.bytes_read, result.bytes_written);
	return err;
}

TEST(CopyLate, MovesWhatHasCome)
{
	rounds(
		nothing, copy,
		[](Between &between) { return probe_fd_waiting(between.left.server, 0) != 0; },
		send_one, [](Between &between) { EXPECT_EQ(1, count(between.right.client)); });
}

} // namespace
