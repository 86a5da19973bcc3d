// SPDX-License-Identifier: MIT
//
// Everything at the same time for some seconds, at random: tasks that spawn, join, yield, sleep,
// block and talk, on 1 to 8 processors. At the end the sums must be right, and no task may be left.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "support/net.h"

namespace
{

using test::Listener;
using test::Task;

struct Sums {
	std::atomic<uint64_t> spawned{0}, ended{0}, joined{0}, foreign{0};
	std::atomic<uint64_t> sent{0}, received{0}, wrong{0};
};

class Mixture
{
public:
	explicit Mixture(Sums &s) : sums(s) {}

	void step(test::Random &random, int depth)
	{
		switch (random.below(10)) {
		case 0:
		case 1:
			ASSERT_EQ(0, sn_yield());
			break;
		case 2:
			ASSERT_EQ(0, sn_sleep(int64_t(random.below(300)) * test::us));
			break;
		case 3: {
			useconds_t nap = useconds_t(random.below(100));

			ASSERT_EQ(0, sn_blocking(
					     [](void *arg) {
						     usleep(*static_cast<useconds_t *>(arg));
						     return 0;
					     },
					     &nap));
			break;
		}
		case 4:
		case 5:
			if (depth > 0)
				children(random, depth);
			break;
		case 6:
			detached(random);
			break;
		case 7:
			work(random);
			break;
		default:
			talk(random);
		}
	}

private:
	// Some children that do the same as their parent, joined in reverse order.
	void children(test::Random &random, int depth)
	{
		std::vector<Task> tasks;

		for (uint64_t i = 1 + random.below(4); i > 0; i--) {
			sums.spawned++;
			tasks.emplace_back([this, depth, seed = random.next()] {
				test::Random mine(seed);

				for (uint64_t n = mine.below(5); n > 0; n--)
					step(mine, depth - 1);
				sums.ended++;
				return int(seed % 1000);
			});
		}
		while (!tasks.empty()) {
			const int result = tasks.back().join();

			ASSERT_TRUE(result >= 0 && result < 1000);
			tasks.pop_back();
			sums.joined++;
		}
	}
	void detached(test::Random &random)
	{
		sums.spawned++;
		Task task([this, ns = int64_t(random.below(1000)) * test::us] {
			sn_sleep(ns);
			sums.ended++;
			sums.joined++;
		});
		task.detach();
	}
	static void work(test::Random &random)
	{
		const int64_t end = sn_now() + int64_t(random.below(50)) * test::us;

		while (sn_now() < end)
			continue;
	}
	// A message to the echo server and back, sometimes cut short.
	void talk(test::Random &random)
	{
		sn_tcp *conn = test::connect(address);
		const std::string text = test::random_bytes(random, 1 + random.below(2000));
		std::string got(text.size(), 0);
		size_t done = 0;
		ssize_t n = 1;

		if (!conn)
			return;
		ASSERT_EQ(ssize_t(text.size()),
			  sn_tcp_write_all(conn, text.data(), text.size(), nullptr));
		sums.sent++;
		if (random.below(8) == 0) {
			ASSERT_EQ(0, sn_tcp_abort(conn));
			sums.received++;
			return;
		}
		sn_tcp_set_read_deadline(conn, sn_now() + test::patience);
		while (done < got.size() &&
		       (n = sn_tcp_read(conn, got.data() + done, got.size() - done)) > 0)
			done += size_t(n);
		sums.wrong += got != text;
		sums.received++;
		ASSERT_EQ(0, sn_tcp_close(conn));
	}

public:
	Sums &sums;
	std::string address;
};

void stress(int processors)
{
	test::Random seeds;
	const int64_t duration = (test::is_short()         ? 1
				  : TEST_TSAN || TEST_ASAN ? 4
							   : 3) *
				 test::second;
	Sums sums;

	test::run(processors, [&] {
		Listener listener;
		Mixture mixture(sums);
		std::atomic<bool> end{false};
		std::atomic<uint64_t> foreign_ended{0};
		Task server([&] {
			sn_tcp *conn;

			while (sn_tcp_accept(listener.get(), &conn) == 0) {
				sums.spawned++;
				Task session([conn, &sums] {
					char buf[700];
					ssize_t n;

					while ((n = sn_tcp_read(conn, buf, sizeof buf)) > 0 &&
					       sn_tcp_write_all(conn, buf, size_t(n), nullptr) == n)
						continue;
					sn_tcp_close(conn);
					sums.ended++;
					sums.joined++;
				});
				session.detach();
			}
		});
		std::vector<Task> drivers;

		mixture.address = listener.address();
		for (int i = 0; i < 24; i++)
			drivers.emplace_back([&, seed = seeds.next()] {
				test::Random random(seed);

				while (!end.load() && !testing::Test::HasFailure())
					mixture.step(random, 3);
			});
		static std::atomic<uint64_t> *ended;
		ended = &foreign_ended;
		std::thread foreign([&] {
			while (!end.load()) {
				ASSERT_EQ(0, sn_go(
						     [](void *) {
							     sn_yield();
							     ++*ended;
							     return 0;
						     },
						     nullptr));
				sums.foreign++;
				usleep(500);
			}
		});
		sn_sleep(duration);
		// On a slow machine this may take longer.
		EXPECT_TRUE(test::eventually(
			[&] { return sums.sent.load() > 10 && sums.spawned.load() > 100; }));
		end = true;
		test::join_all(drivers);
		foreign.join();
		EXPECT_TRUE(test::eventually([] { return test::stats().tasks_alive == 2; }))
			<< test::stats().tasks_alive << " tasks are left";
		// No new call may begin after the close, so the server must be in one.
		EXPECT_TRUE(test::someone_reads(listener.get()));
		EXPECT_TRUE(test::eventually([] { return test::stats().tasks_alive == 2; }));
		listener.close();
		server.join();
		const struct sn_run_stats s = test::stats();

		EXPECT_EQ(1u, s.tasks_alive);
		EXPECT_EQ(0u, s.threads_blocking);
		EXPECT_EQ(sums.foreign.load(), foreign_ended.load());
		// The first task, the server, the drivers, and whatever they spawned.
		EXPECT_EQ(2 + 24 + sums.spawned.load() + sums.foreign.load(), s.tasks_spawned);
	});
	EXPECT_EQ(sums.spawned.load(), sums.ended.load()) << "seed " << seeds.seed();
	EXPECT_EQ(sums.spawned.load(), sums.joined.load()) << "seed " << seeds.seed();
	EXPECT_EQ(sums.sent.load(), sums.received.load()) << "seed " << seeds.seed();
	EXPECT_EQ(0u, sums.wrong.load()) << "seed " << seeds.seed();
}

TEST(Stress, OneProcessor)
{
	stress(1);
}

TEST(Stress, TwoProcessors)
{
	stress(2);
}

TEST(Stress, FourProcessors)
{
	stress(4);
}

TEST(Stress, EightProcessors)
{
	stress(8);
}

} // namespace
