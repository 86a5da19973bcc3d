// SPDX-License-Identifier: MIT
// Labels: long
//
// An oracle for sn_relay() and sn_copy(): sessions of random streams, chunks, pauses, half-closes,
// resets, cancellations, timeouts and slow readers on both sides. For each session it checks:
//
//   - Every byte that a peer receives is the one that the other peer sent at that place.
//   - A peer sees the end of the stream only if the other has ended it, and after all of its bytes.
//   - If a session ends cleanly, both streams have arrived whole.
//   - With a rate limit, no byte is delivered that was not granted, or before its time. What was
//     granted and not read is given back.
//   - The relay reports as many bytes delivered as read, or says which were lost. The bytes of all
//     paths add up.
//
// After the whole run there are as many descriptors, pipes and tasks as before.
//
//   SENNIT_TEST_SESSIONS   how many sessions in all, instead of some seconds' worth
//   SENNIT_TEST_SEED       repeats a run
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include <dirent.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <sennit/unstable.h>

#include "support/net.h"
#include "support/tcp_state.h"

namespace
{

using namespace test;

// All streams are cut from a text with this period. The period is prime, so that the text differs
// at any two places whose distance is a multiple of a buffer's size.
constexpr size_t period = 65521;

// Returns a pointer to the bytes at `offset` of the endless stream that begins at `shift`; at most
// `period` of them.
const char *at(uint64_t shift, uint64_t offset)
{
	static const std::string *twice = [] {
		test::Random random(1);
		const std::string once = test::random_bytes(random, period);

		return new std::string(once + once);
	}();

	return twice->data() + (shift + offset) % period;
}

enum class Ending {
	shut,  // a FIN after the last byte, while reading continues
	reset, // a reset in the middle of the stream
};

// What one peer does. Drawn before the session begins, so that a seed repeats it.
struct Script {
	uint64_t shift, size, chunk;
	Ending ending;
	int pause_every, read_pause_every;
	size_t read_size;
	int buffer; // in bytes; 0: the system's default
	uint64_t seed;
};

uint64_t random_size(test::Random &random)
{
	switch (random.below(10)) {
	case 0:
		return 0;
	case 1:
		return 1 + random.below(2 << 20); // large enough to be spliced
	case 2:
	case 3:
		return 1 + random.below(600000);
	default:
		return 1 + random.below(20000);
	}
}

Script draw(test::Random &random)
{
	static const uint64_t chunks[] = {1, 100, 1000, 4096, 16384, 65521};
	Script script = {};

	script.shift = random.below(period);
	script.size = random_size(random);
	script.chunk = 1 + random.below(chunks[random.below(6)]);
	if (script.size / script.chunk > 300)
		script.chunk = 1 + script.size / 300;
	script.ending = random.below(8) == 0 ? Ending::reset : Ending::shut;
	script.pause_every = random.below(2) ? 0 : int(10 + random.below(50));
	script.read_pause_every = random.below(2) ? 0 : int(10 + random.below(20));
	script.read_size = 1 + random.below(random.below(3) ? 100000 : 3000);
	if (script.read_size < 1000 && script.size > 100000)
		script.read_size += 10000;
	script.buffer = random.below(2) ? 0 : 1 << (14 + random.below(5));
	script.seed = random.next();
	return script;
}

struct Peer {
	sn_tcp *conn;
	Script script;
	const std::atomic<bool> *relay_has_aborted;
	std::atomic<uint64_t> sent{0};    // at least so many bytes were given to the kernel
	std::atomic<uint64_t> handing{0}; // at most so many
	std::atomic<bool> shut{false};    // is about to end its stream
	uint64_t received = 0;
	bool gives_up = false; // the peer leaves in the middle of the stream
	bool saw_end = false, exact = true, before_end = false;
};

void pause_sometimes(test::Random &random, int every)
{
	if (every && random.below(uint64_t(every)) == 0)
		sn_sleep(int64_t(random.below(300)) * test::us);
}

void write_script(Peer &me)
{
	test::Random random(me.script.seed);
	const uint64_t size = me.script.ending == Ending::reset
				      ? me.script.size ? random.below(me.script.size) : 0
				      : me.script.size;

	for (uint64_t done = 0; done < size;) {
		const size_t n = size_t(std::min({me.script.chunk, size - done, uint64_t(period)}));

		me.handing.store(done + n);
		const ssize_t written = sn_tcp_write(me.conn, at(me.script.shift, done), n);
		if (written < 0)
			return;
		done += uint64_t(written);
		me.sent.store(done);
		pause_sometimes(random, me.script.pause_every);
	}
	if (me.script.ending == Ending::shut) {
		me.shut.store(true);
		sn_tcp_shutdown(me.conn, SN_SHUT_WRITE);
	} else {
		sn_tcp_cancel(me.conn); // this peer's reader leaves; the abort sends the reset
	}
}

// The kernel reports a reset once, so if this peer's writer got it, the reader sees a false end.
// The connection is then closed already. After a true end it is not, unless this peer has ended its
// stream, too, but then no writer can have got the error.
bool is_an_end(const Peer &me)
{
	return test::tcp_state(sn_tcp_fd(me.conn)) != TCP_CLOSE || me.shut.load();
}

// Whether the relay's reset has been lost on its way to this peer (see SN_RELAY_IDLE below). Then
// the kernel has nothing to report, so the runtime has not failed to wake the peer.
bool lost_the_reset(const Peer &me)
{
	const int fd = sn_tcp_fd(me.conn);
	char byte;

	if (!me.relay_has_aborted->load())
		return false;
	EXPECT_NE(TCP_CLOSE, test::tcp_state(fd));
	EXPECT_EQ(-1, recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	return true;
}

void read_script(Peer &me, const Peer &other)
{
	test::Random random(me.script.seed + 1);
	std::string buf(me.script.read_size, 0);

	sn_tcp_set_read_deadline(me.conn, sn_now() + 2 * test::patience);
	for (;;) {
		const ssize_t n = sn_tcp_read(me.conn, buf.data(), buf.size());

		if (n == -ETIMEDOUT && !lost_the_reset(me)) {
			sn_tcp_set_read_deadline(me.conn, sn_now() + test::patience);
			continue;
		}
		if (n < 0)
			return;
		if (n == 0) {
			me.saw_end = is_an_end(me);
			me.before_end = !other.shut.load() || other.sent.load() != me.received;
			return;
		}
		for (size_t done = 0; done < size_t(n);) {
			const size_t part = std::min(size_t(n) - done, period);

			if (memcmp(buf.data() + done, at(other.script.shift, me.received + done),
				   part) != 0)
				me.exact = false;
			done += part;
		}
		me.received += uint64_t(n);
		if (me.received > other.handing.load())
			me.exact = false;
		pause_sometimes(random, me.script.read_pause_every);
	}
}

void set_buffer(sn_tcp *conn, int size)
{
	if (size == 0)
		return;
	setsockopt(sn_tcp_fd(conn), SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	setsockopt(sn_tcp_fd(conn), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

// A random rate limit: chunks of any size, now and then no limit, or a time that moves.
class RateLimit
{
public:
	explicit RateLimit(uint64_t seed) : random_{test::Random(seed), test::Random(seed + 1)}
	{
		calls.most = [](void *arg, sn_relay_direction way) {
			return static_cast<RateLimit *>(arg)->most(way);
		};
		calls.take = [](void *arg, sn_relay_direction way, int64_t bytes) {
			return static_cast<RateLimit *>(arg)->take(way, bytes);
		};
		calls.arg = this;
	}

	void check(const struct sn_relay_result &result, uint64_t seed)
	{
		for (int way = 0; way < 2; way++) {
			const uint64_t read = result.directions[way].bytes_read;

			EXPECT_EQ(0u, early_[way]) << "seed " << seed;
			EXPECT_LE(taken_[way], read)
				<< "the relay kept an unused grant, seed " << seed;
			if (!unlimited_[way]) {
				EXPECT_EQ(taken_[way], read) << "seed " << seed;
			}
		}
	}

	struct sn_relay_rate_limit calls = {};

private:
	size_t most(sn_relay_direction way)
	{
		const bool none = random_[way].below(20) == 0;

		unlimited_[way] |= none;
		// By the time of the next grant, that of the previous one must have come.
		early_[way] += when_[way] > sn_now();
		return none ? 0 : 1 + random_[way].below(200000);
	}

	int64_t take(sn_relay_direction way, int64_t bytes)
	{
		taken_[way] += uint64_t(bytes);
		if (bytes < 0)
			when_[way] = 0;
		else if (bytes > 0 || random_[way].below(4) == 0)
			when_[way] =
				random_[way].below(6)
					? 0
					: sn_now() + int64_t(random_[way].below(2000)) * test::us;
		return when_[way];
	}

	test::Random random_[2];
	uint64_t taken_[2] = {}, early_[2] = {};
	int64_t when_[2] = {};
	bool unlimited_[2] = {};
};

struct Tally {
	std::atomic<uint64_t> sessions{0}, finished{0}, failed{0}, timed_out{0}, canceled{0};
	std::atomic<uint64_t> userspace{0}, spliced{0}, lost{0};
};

void check_copy(const struct sn_copy_result &copy, Tally &tally)
{
	EXPECT_EQ(copy.bytes_written, copy.bytes_userspace + copy.bytes_spliced + copy.bytes_file);
	EXPECT_GE(copy.bytes_read, copy.bytes_written);
	if (copy.failed != SN_COPY_WRITE) {
		EXPECT_EQ(copy.bytes_read, copy.bytes_written)
			<< "what was read before src failed is delivered";
	}
	tally.userspace += copy.bytes_userspace;
	tally.spliced += copy.bytes_spliced;
	tally.lost += copy.bytes_read - copy.bytes_written;
}

void session(Listener &listener, uint64_t seed, Tally &tally)
{
	test::Random random(seed);
	Pair a(listener), b(listener);
	std::atomic<bool> aborted{false};
	Peer left{a.client, draw(random), &aborted}, right{b.client, draw(random), &aborted};
	struct sn_relay_tuning tuning = {};
	struct sn_relay_options options = {};
	struct sn_relay_result result;
	const uint64_t fate = random.below(16);
	const int64_t cut_after = int64_t(random.below(5000)) * test::us;
	int relay_buffer = random.below(3) ? 0 : 1 << (14 + random.below(5));
	RateLimit rate_limit(random.next());

	if (random.below(3) == 0)
		options.rate_limit = &rate_limit.calls;
	tuning.closing = random.below(2) == 0;
	tuning.coalesce = static_cast<sn_relay_coalesce>(random.below(3));
	options.tuning = &tuning;

	// A timeout that passes in some sessions and not in others.
	if (fate == 0)
		options.idle_timeout = int64_t(1 + random.below(20)) * test::ms;
	else
		options.idle_timeout = test::patience;
	if (fate == 1)
		options.half_close_timeout = int64_t(1 + random.below(20)) * test::ms;
	set_buffer(left.conn, left.script.buffer);
	set_buffer(right.conn, right.script.buffer);
	set_buffer(a.server, relay_buffer);
	set_buffer(b.server, relay_buffer);

	Task relay([&] {
		const int err = sn_relay(sn_tcp_stream(a.server), sn_tcp_stream(b.server), &result,
					 &options);

		for (sn_tcp *conn : {a.server.load(), b.server.load()})
			EXPECT_EQ(1, test::low_water(conn)) << "seed " << seed;
		if (err == 0) {
			a.close_server();
			b.close_server();
		} else {
			EXPECT_EQ(0, sn_tcp_abort(a.release_server()));
			EXPECT_EQ(0, sn_tcp_abort(b.release_server()));
			aborted.store(true);
		}
		return err;
	});
	// A peer that resets its connection aborts it when its two tasks are done.
	auto play = [&](Pair &pair, Peer &me, const Peer &other) {
		Task writer([&] { write_script(me); });
		Task canceller;

		if (me.gives_up)
			canceller = Task([&] {
				sn_sleep(cut_after);
				sn_tcp_cancel(me.conn); // makes its tasks leave
			});
		read_script(me, other);
		writer.join();
		if (me.gives_up)
			canceller.join();
		if (me.script.ending == Ending::reset || me.gives_up)
			sn_tcp_abort(pair.release_client());
	};
	left.gives_up = fate == 2;
	Task players[] = {Task([&] { play(a, left, right); }), Task([&] { play(b, right, left); })};
	join_all(players);
	const int err = relay.join();

	EXPECT_EQ(err, result.error);
	EXPECT_EQ(err == 0, result.end == SN_RELAY_FINISHED);
	for (const auto &copy : result.directions)
		check_copy(copy, tally);
	if (options.rate_limit)
		rate_limit.check(result, seed);
	for (const Peer *peer : {&left, &right}) {
		EXPECT_TRUE(peer->exact) << "seed " << seed;
		EXPECT_FALSE(peer->saw_end && peer->before_end) << "a false end, seed " << seed;
	}
	tally.sessions++;
	switch (result.end) {
	case SN_RELAY_FINISHED:
		tally.finished++;
		EXPECT_EQ(left.script.size, right.received) << "seed " << seed;
		EXPECT_TRUE(right.saw_end) << "seed " << seed;
		if (!left.gives_up) { // otherwise some delivered bytes may not have been read
			EXPECT_EQ(right.script.size, left.received) << "seed " << seed;
			EXPECT_TRUE(left.saw_end) << "seed " << seed;
		}
		EXPECT_EQ(0, result.lost);
		break;
	case SN_RELAY_FAILED:
		tally.failed++;
		EXPECT_TRUE(left.script.ending == Ending::reset ||
			    right.script.ending == Ending::reset || fate == 2)
			<< "no peer has reset, but the result is " << err << ", seed " << seed;
		if ((left.script.ending == Ending::reset || left.gives_up) !=
		    (right.script.ending == Ending::reset)) {
			EXPECT_EQ(right.script.ending == Ending::reset, result.side == 1)
				<< "blames " << result.side << ", seed " << seed;
		}
		break;
	case SN_RELAY_IDLE:
	case SN_RELAY_HALF_CLOSE:
		tally.timed_out++;
		/*
		 * The kernel may lose a reset. Its sequence number is beyond a segment that was
		 * dropped for lack of room, so the receiver answers with a challenge
		 * acknowledgement. It sends only one of these in half a second, and may have just
		 * sent one.
		 */
		EXPECT_TRUE(fate <= 2 || left.script.ending == Ending::reset ||
			    right.script.ending == Ending::reset)
			<< "seed " << seed;
		break;
	case SN_RELAY_CANCELED:
		ADD_FAILURE() << "nothing has cancelled the relay's connections, seed " << seed;
		break;
	}
}

int open_descriptors()
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

int wanted_sessions()
{
	const char *wish = getenv("SENNIT_TEST_SESSIONS");

	return wish ? std::max(1, atoi(wish)) : test::scaled(400);
}

// Whether some bytes must have been spliced.
enum class Spliced { some, none, maybe };

// `crowd`: how many sessions run at the same time.
void run_sessions(int total, int crowd, Spliced spliced)
{
	test::Random seeds;
	Tally tally;
	const int descriptors = open_descriptors();

	test::run({1, 4}, [&] {
		std::atomic<int> left{total / 2};
		std::vector<Task> tasks;

		for (int i = 0; i < crowd; i++)
			tasks.emplace_back([&, seed = seeds.next()] {
				test::Random mine(seed);
				Listener own;

				while (left-- > 0 && !testing::Test::HasFailure())
					session(own, mine.next(), tally);
			});
		join_all(tasks);
		struct sn_copy_stats pool;
		EXPECT_EQ(0, sn_copy_stats(&pool));
		EXPECT_EQ(0u, pool.pipes_borrowed);
		EXPECT_LE(pool.pipes, pool.pipes_limit);
		EXPECT_TRUE(test::all_ended());
	});
	probe_pipes_reset();
	EXPECT_EQ(descriptors, open_descriptors());
	printf("%llu sessions: %llu finished, %llu reset, %llu timed out; bytes: %llu copied, "
	       "%llu spliced, %llu lost\n",
	       (unsigned long long)tally.sessions, (unsigned long long)tally.finished,
	       (unsigned long long)tally.failed, (unsigned long long)tally.timed_out,
	       (unsigned long long)tally.userspace, (unsigned long long)tally.spliced,
	       (unsigned long long)tally.lost);
	if (testing::Test::HasFailure())
		return;
	EXPECT_GT(tally.finished, 0u);
	// Under an emulator there are few sessions, and perhaps none is large enough for a pipe.
	if (spliced == Spliced::none || (spliced == Spliced::some && total >= 100)) {
		EXPECT_EQ(spliced == Spliced::some, tally.spliced > 0);
	}
}

TEST(RelayOracle, Sessions)
{
	probe_pipes_reset();
	run_sessions(wanted_sessions(), 16, Spliced::some);
}

// Pipes of one page and of two, which a few small pieces fill.
TEST(RelayOracle, WithSmallPipes)
{
	for (const char *size : {"4096", "8192"}) {
		test::Environment small("SENNIT_PIPE_SIZE", size);

		probe_pipes_reset();
		run_sessions(wanted_sessions() / 4, 16, Spliced::some);
	}
	probe_pipes_reset();
}

TEST(RelayOracle, WithOnePipeForAll)
{
	test::Environment one("SENNIT_PIPES", "1");

	probe_pipes_reset();
	run_sessions(wanted_sessions() / 4, 16, Spliced::some);
}

TEST(RelayOracle, WithoutPipes)
{
	test::Environment none("SENNIT_PIPES", "0");

	probe_pipes_reset();
	run_sessions(wanted_sessions() / 4, 16, Spliced::none);
}

// One of the two pipes is always a short loan.
TEST(RelayOracle, WithTwoPipes)
{
	test::Environment two("SENNIT_PIPES", "2");

	probe_pipes_reset();
	run_sessions(wanted_sessions() / 4, 16, Spliced::maybe);
	probe_pipes_reset();
}

// Just enough descriptors for the sessions, so that a pipe can sometimes be had and sometimes not;
// if there are few sessions, perhaps never.
TEST(RelayOracle, WithFewDescriptors)
{
	const int crowd = 16;
	struct rlimit former, few;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &former));
	few = former;
	// Each session has a listener and four ends. Without a descriptor accepting only pauses,
	// but connecting would fail, so there are enough for that. The last term is for pipes.
	few.rlim_cur = rlim_t(open_descriptors() + 10 + crowd * 5 + 6);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &few));
	probe_pipes_reset();
	run_sessions(wanted_sessions() / 4, crowd, Spliced::maybe);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &former));
	probe_pipes_reset();
}

} // namespace
