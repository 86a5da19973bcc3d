/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* The queue of a group: clients wait in turn while every backend is full. */
#include "backends/queue.hpp"
#include "harness.hpp"

#include <atomic>
#include <csignal>
#include <gtest/gtest.h>
#include <list>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <thread>
#include <vector>

using namespace harness;

namespace
{

std::string text(const std::string &group, const std::string &backends,
		 const std::string &listener = "")
{
	return "drain = 0\naccess_log = \"stderr\"\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n" +
	       listener + "[groups.g]\nslow_return = 0\n" + group + "backends = [" + backends +
	       "]\n";
}

std::string limited(const listener &backend, const std::string &more = "max_connections = 1")
{
	return "{address = \"" + backend.address() + "\", " + more + "}";
}

std::uint64_t of_queue(relay_process &relay, const std::string &name)
{
	return relay.metric("queue_" + name + "{group=\"g\"}");
}

bool has_queued(relay_process &relay, std::uint64_t n)
{
	return eventually([&] { return of_queue(relay, "connections") == n; });
}

void stop_idle(relay_process &relay)
{
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	EXPECT_EQ(of_queue(relay, "connections"), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

/* A client and its connection to the backend. */
struct pair {
	peer client;
	peer backend;

	static pair open(relay_process &relay, listener &backend)
	{
		pair made{peer::connect(relay.address()), {}};
		made.client.send("x");
		made.backend = backend.accept();
		EXPECT_EQ(made.backend.receive(1), "x");
		return made;
	}
	void close()
	{
		client.close();
		backend.close();
	}
};

TEST(Queue, ServesInTheOrderOfArrival)
{
	listener backend;
	configured_relay relay(text("queue_timeout = 0\n", limited(backend)));
	auto first = pair::open(relay, backend);
	std::vector<peer> waiting;
	for (unsigned i = 0; i < 3; i++) {
		waiting.push_back(peer::connect(relay.address()));
		waiting.back().send(std::string(1, static_cast<char>('a' + i)));
		ASSERT_TRUE(has_queued(relay, i + 1));
	}
	first.close();
	for (unsigned i = 0; i < 3; i++) {
		auto served = backend.accept();
		EXPECT_EQ(served.receive(1), std::string(1, static_cast<char>('a' + i)));
		EXPECT_EQ(of_queue(relay, "connections"), 2 - i);
		served.send("!");
		served.close();
		EXPECT_EQ(waiting[i].receive_rest(), std::pair(std::string("!"), ending::fin));
		waiting[i].close();
	}
	EXPECT_EQ(of_queue(relay, "waits_total"), 3U);
	EXPECT_EQ(of_queue(relay, "full_total") + of_queue(relay, "timeouts_total") +
			  of_queue(relay, "left_total"),
		  0U);
	EXPECT_EQ(relay.counter("refused"), 0U);
	relay.await_error(" queue_ms=");
	stop_idle(relay);
}

TEST(Queue, RefusesMoreThanItsLimit)
{
	listener backend;
	configured_relay relay(text("queue = 2\nqueue_timeout = 0\n", limited(backend)));
	auto first = pair::open(relay, backend);
	std::vector<peer> waiting;
	for (unsigned i = 0; i < 2; i++) {
		waiting.push_back(peer::connect(relay.address()));
		ASSERT_TRUE(has_queued(relay, i + 1));
	}
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	relay.await_error("cause=queue_full listener=web ");
	relay.await_error("is at its max_connections, and its queue is full");
	EXPECT_EQ(of_queue(relay, "full_total"), 1U);
	EXPECT_EQ(of_queue(relay, "limit"), 2U);
	EXPECT_EQ(of_queue(relay, "connections"), 2U);
	EXPECT_EQ(relay.counter("refused"), 1U);
	first.close();
	for (auto &each : waiting) {
		each.send("y");
		auto served = backend.accept();
		EXPECT_EQ(served.receive(1), "y");
		each.close();
		served.close();
	}
	stop_idle(relay);
}

TEST(Queue, OfNoLengthRefusesAtOnce)
{
	listener backend;
	configured_relay relay(text("queue = 0\n", limited(backend)));
	auto first = pair::open(relay, backend);
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	relay.await_error("cause=refused_limit listener=web ");
	relay.await_error("is at its max_connections, and the group has no queue");
	first.close();
	stop_idle(relay);
}

TEST(Queue, EndsWhenItTakesTooLong)
{
	listener backend;
	configured_relay relay(text("queue_timeout = \"200ms\"\n", limited(backend)));
	auto first = pair::open(relay, backend);
	const auto start = std::chrono::steady_clock::now();
	auto late = peer::connect(relay.address());
	EXPECT_EQ(late.receive_end(), ending::fin);
	EXPECT_GE(std::chrono::steady_clock::now() - start, 200ms);
	relay.await_error("cause=queue_timeout listener=web ");
	relay.await_error("is at its max_connections, and the client has waited for queue_timeout");
	EXPECT_EQ(of_queue(relay, "timeouts_total"), 1U);
	first.client.send("y");
	EXPECT_EQ(first.backend.receive(1), "y");
	first.close();
	stop_idle(relay);
}

/* The time in the queue is not a part of the time for connecting. */
TEST(Queue, LeavesTheTimeForConnectingAlone)
{
	listener backend;
	configured_relay relay(
		text("queue_timeout = 0\n", limited(backend), "connect_timeout = \"400ms\"\n"));
	auto first = pair::open(relay, backend);
	auto second = peer::sending("y", relay.address());
	std::this_thread::sleep_for(600ms);
	EXPECT_EQ(of_queue(relay, "connections"), 1U);
	first.close();
	auto served = backend.accept();
	EXPECT_EQ(served.receive(1), "y");
	second.close();
	served.close();
	stop_idle(relay);
}

TEST(Queue, IsLeftByClientsThatGoAway)
{
	listener backend;
	configured_relay relay(text("queue_timeout = 0\n", limited(backend)));
	auto first = pair::open(relay, backend);
	auto silent = peer::connect(relay.address());
	ASSERT_TRUE(has_queued(relay, 1));
	silent.close();
	ASSERT_TRUE(has_queued(relay, 0));
	auto reset = peer::sending("never read", relay.address());
	ASSERT_TRUE(has_queued(relay, 1));
	reset.reset();
	ASSERT_TRUE(has_queued(relay, 0));
	EXPECT_EQ(of_queue(relay, "left_total"), 2U);
	relay.await_error("cause=client_left listener=web ");
	/* A client that has sent a request and ended its stream may still expect an answer. */
	auto half = peer::sending("question", relay.address());
	half.shutdown_write();
	ASSERT_TRUE(has_queued(relay, 1));
	auto last = peer::sending("z", relay.address());
	ASSERT_TRUE(has_queued(relay, 2));
	first.close();
	auto served = backend.accept();
	EXPECT_EQ(served.receive_rest(), std::pair(std::string("question"), ending::fin));
	served.send("answer");
	served.close();
	EXPECT_EQ(half.receive_rest(), std::pair(std::string("answer"), ending::fin));
	half.close();
	auto of_last = backend.accept();
	EXPECT_EQ(of_last.receive(1), "z");
	of_last.close();
	last.close();
	stop_idle(relay);
}

TEST(Queue, CanTakeAHalfCloseForTheEnd)
{
	listener backend;
	configured_relay relay(
		text("queue_timeout = 0\nqueue_half_closed = \"leave\"\n", limited(backend)));
	auto first = pair::open(relay, backend);
	auto half = peer::sending("question", relay.address());
	ASSERT_TRUE(has_queued(relay, 1));
	half.shutdown_write();
	ASSERT_TRUE(has_queued(relay, 0));
	EXPECT_EQ(of_queue(relay, "left_total"), 1U);
	half.close();
	first.close();
	stop_idle(relay);
}

/* Waiting clients get what the new configuration allows, immediately and in their order. */
TEST(Queue, IsServedByAReload)
{
	listener backend;
	listener other;
	const auto with = [&](const std::string &one, const std::string &two) {
		return text("queue_timeout = 0\n",
			    limited(backend, one) + ", " + limited(other, two));
	};
	configured_relay relay(with("max_connections = 1", "weight = 0"));
	auto first = pair::open(relay, backend);
	std::vector<peer> waiting;
	for (unsigned i = 0; i < 4; i++) {
		waiting.push_back(peer::connect(relay.address()));
		waiting.back().send(std::string(1, static_cast<char>('a' + i)));
		ASSERT_TRUE(has_queued(relay, i + 1));
	}
	const auto expect = [](listener &at, const std::string &letter) {
		auto served = at.accept();
		EXPECT_EQ(served.receive(1), letter);
		return served;
	};
	ASSERT_TRUE(relay.reload(with("max_connections = 2", "weight = 0")));
	auto a = expect(backend, "a");
	ASSERT_TRUE(relay.reload(with("max_connections = 2", "weight = 1, max_connections = 1")));
	auto b = expect(other, "b");
	ASSERT_TRUE(has_queued(relay, 2));
	/* A place that is freed by a connection from the time before the reloads. */
	first.close();
	auto c = expect(backend, "c");
	/* A client that arrives after the reload is queued after one from before it. */
	waiting.push_back(peer::connect(relay.address()));
	waiting.back().send("e");
	ASSERT_TRUE(has_queued(relay, 2));
	b.close();
	waiting[1].close();
	auto d = expect(other, "d");
	c.close();
	waiting[2].close();
	auto e = expect(backend, "e");
	EXPECT_EQ(relay.counter("refused"), 0U);
	for (auto *each : {&a, &b, &c, &d, &e})
		each->close();
	waiting.clear();
	stop_idle(relay);
}

TEST(Queue, IsServedByABackendThatComesUp)
{
	listener backend;
	listener other("127.0.0.1", -1);
	configured_relay relay(text("queue_timeout = 0\neject_after = 0\n",
				    limited(backend) + ", " + limited(other)) +
			       "[groups.g.check]\ninterval = \"50ms\"\nfall = 1\nrise = 1\n");
	relay.await_error("backend " + other.address() + " of g is down");
	const auto accept = [](listener &at) {
		for (;;) { /* skips connections of checks, which are reset */
			auto got = at.accept();
			try {
				EXPECT_EQ(got.receive(1), "x");
				return got;
			} catch (const std::exception &) {
			}
		}
	};
	pair first{peer::connect(relay.address()), {}};
	first.client.send("x");
	first.backend = accept(backend);
	auto second = peer::sending("x", relay.address());
	ASSERT_TRUE(has_queued(relay, 1));
	other.listen();
	auto served = accept(other);
	second.close();
	served.close();
	first.close();
	stop_idle(relay);
}

/* An ejection ends without an event. */
TEST(Queue, IsServedByABackendThatReturnsFromEjection)
{
	listener backend;
	listener other("127.0.0.1", -1);
	configured_relay relay(text("queue_timeout = 0\neject_after = 1\neject_for = \"500ms\"\n",
				    limited(backend) + ", " + limited(other)));
	auto first = pair::open(relay, backend);
	auto second = peer::sending("y", relay.address());
	ASSERT_TRUE(has_queued(relay, 1)) << "it has tried the other one in vain";
	EXPECT_EQ(relay.counter("ejections"), 1U);
	other.listen();
	auto third = peer::sending("z", relay.address());
	auto served = other.accept();
	EXPECT_EQ(served.receive(1), "z");
	EXPECT_EQ(of_queue(relay, "connections"), 1U);
	first.close();
	auto of_second = backend.accept();
	EXPECT_EQ(of_second.receive(1), "y");
	for (auto *each : {&second, &third, &served, &of_second})
		each->close();
	stop_idle(relay);
}

TEST(Queue, EndsWithTheRelay)
{
	listener backend;
	configured_relay relay(text("queue_timeout = 0\n", limited(backend)));
	auto first = pair::open(relay, backend);
	auto second = peer::connect(relay.address());
	ASSERT_TRUE(has_queued(relay, 1));
	EXPECT_EQ(relay.stop().status, 0);
	EXPECT_EQ(second.receive_end(), ending::reset);
	EXPECT_EQ(first.client.receive_end(), ending::reset);
}

TEST(Queue, EndsWithTheLifetime)
{
	listener backend;
	configured_relay relay(
		text("queue_timeout = 0\n", limited(backend), "lifetime = \"1s\"\n"));
	const auto first = peer::connect(relay.address());
	auto second = peer::connect(relay.address());
	EXPECT_EQ(second.receive_end(), ending::reset);
	stop_idle(relay);
}

/* Many clients compete for few places, and some of them leave. All others are served, and no place
 * is lost. */
TEST(Queue, LosesNoPlace)
{
	listener backend;
	configured_relay relay(
		text("queue_timeout = 0\n", limited(backend, "max_connections = 2")));
	const std::string address = relay.address();
	std::atomic<bool> over{false};
	std::thread echoing([&] {
		for (;;) {
			try {
				auto one = backend.accept();
				if (over)
					return;
				one.send(one.receive(1));
			} catch (const std::exception &) {
				/* The client left after it had got its place. */
			}
		}
	});
	std::atomic<unsigned> served{0};
	const std::size_t each = scaled(60);
	std::vector<std::thread> clients;
	for (unsigned t = 0; t < 8; t++)
		clients.emplace_back([&, t] {
			for (std::size_t i = 0; i < each; i++) {
				try {
					auto client = peer::connect(address);
					if ((i + t) % 4 == 0) {
						client.reset();
						continue;
					}
					client.send("x");
					EXPECT_EQ(client.receive(1), "x");
					served++;
				} catch (const std::exception &error) {
					ADD_FAILURE() << error.what();
				}
			}
		});
	for (auto &thread : clients)
		thread.join();
	over = true;
	peer::connect(backend.address()).close();
	echoing.join();
	EXPECT_GT(served, 0U);
	EXPECT_EQ(relay.counter("refused"), 0U);
	stop_idle(relay);
}

/* ---- the queue alone --------------------------------------------------------------------- */

class places final : public relay::queue::giver
{
public:
	explicit places(int n) : free_(n) {}

	bool take() noexcept
	{
		int now = free_.load();
		while (now > 0)
			if (free_.compare_exchange_weak(now, now - 1))
				return true;
		return false;
	}
	void give_back() noexcept { free_.fetch_add(1); }
	answer give_place(relay::queue::waiter &,
			  const std::shared_ptr<relay::queue::giver> &) noexcept override
	{
		return take() ? answer::given : answer::none;
	}
	int free() const noexcept { return free_.load(); }

private:
	std::atomic<int> free_;
};

struct waiting final : relay::queue::waiter {
	explicit waiting(bool is_plain = true) : waiter(is_plain) {}
};

/* There is no periodic look at the queue, so a client would never recover from a lost wake-up. */
TEST(QueueAlone, WakesOneForEachPlace)
{
	const auto all = std::make_shared<places>(2);
	relay::queue line;
	line.set_limit(UINT64_MAX);
	line.use(all);
	std::atomic<int> inside{0};
	std::atomic<unsigned> left{0};
	const std::size_t rounds = scaled(2000);
	const auto one = [&](unsigned number) {
		for (std::size_t i = 0; i < rounds; i++) {
			if (!line.is_empty() || !all->take()) {
				waiting mine;
				const auto entered = line.enter(mine);
				ASSERT_NE(entered, relay::queue::entry::full);
				const bool stays = (i + number) % 5 != 0;
				while (stays && line.look(mine) != relay::queue::place::given)
					ASSERT_EQ(sn_chan_recv_until(mine.rings.chan(), nullptr,
								     sn_now() + 30'000'000'000),
						  0)
						<< "the client was not woken";
				if (!line.leave(mine)) {
					left++;
					continue;
				}
			}
			EXPECT_LE(++inside, 2);
			if (i % 3 == 0)
				sn::yield();
			inside--;
			all->give_back();
			line.place_is_free();
		}
	};
	EXPECT_EQ(sn::run([&] {
			  std::vector<sn::task<void>> tasks;
			  for (unsigned i = 0; i < 16; i++)
				  tasks.push_back(sn::spawn([&, i] { one(i); }));
			  for (auto &each : tasks)
				  each.join();
			  return 0;
		  }),
		  0);
	EXPECT_TRUE(line.is_empty());
	EXPECT_EQ(all->free(), 2);
	EXPECT_GT(left, 0U);
}

class full final : public relay::queue::giver
{
public:
	answer give_place(relay::queue::waiter &,
			  const std::shared_ptr<relay::queue::giver> &) noexcept override
	{
		asked++;
		return answer::none;
	}
	bool are_alike(const relay::queue::waiter &,
		       const relay::queue::waiter &) const noexcept override
	{
		return true;
	}
	int asked = 0;
};

class removed final : public relay::queue::giver
{
public:
	answer give_place(relay::queue::waiter &,
			  const std::shared_ptr<relay::queue::giver> &) noexcept override
	{
		asked++;
		return free > 0 ? free--, answer::given : answer::none;
	}
	bool may_serve(const relay::queue::waiter &) const noexcept override
	{
		asked++;
		return true;
	}
	bool is_unwatched() const noexcept override { return true; }
	bool are_alike(const relay::queue::waiter &,
		       const relay::queue::waiter &) const noexcept override
	{
		asked++;
		return true;
	}
	int free = 0;
	mutable int asked = 0;
};

/* Calls body(line) in a run, with a queue in which so many wait, who become the crowd. */
template <class Giver, class Body>
void with_waiters(int n, const std::shared_ptr<Giver> &all, std::list<waiting> &crowd, Body body)
{
	EXPECT_EQ(sn::run([&] {
			  relay::queue line;
			  line.set_limit(UINT64_MAX);
			  line.use(all);
			  for (int i = 0; i < n; i++)
				  line.enter(crowd.emplace_back(i % 3 == 0));
			  all->asked = 0;
			  body(line);
			  return 0;
		  }),
		  0);
}

/* One takes it, and there is none for the next. Also once a reload has removed the group. */
TEST(QueueAlone, LooksOnlyAtTheFirstTwoWhenAPlaceIsFree)
{
	const auto all = std::make_shared<removed>();
	std::list<waiting> crowd;
	with_waiters(100, all, crowd, [&](relay::queue &line) {
		for (auto &each : crowd) {
			all->asked = 0;
			all->free = 1;
			line.place_is_free();
			EXPECT_EQ(all->asked, &each == &crowd.back() ? 1 : 2);
			EXPECT_EQ(line.look(each), relay::queue::place::given);
			EXPECT_TRUE(line.leave(each));
		}
	});
}

/* The end of an ejection wakes nobody, and the first waiter may always be a new one. */
TEST(QueueAlone, UsesPlacesOfWhichNobodyHasTold)
{
	const auto all = std::make_shared<removed>();
	std::list<waiting> crowd;
	with_waiters(10, all, crowd, [&](relay::queue &line) {
		all->free = 5;
		line.place_is_free();
		EXPECT_EQ(all->free, 0);
		int given = 0;
		for (auto &each : crowd)
			given += line.leave(each);
		EXPECT_EQ(given, 5);
	});
}

/* One question is enough, however many clients wait. */
TEST(QueueAlone, AsksOnceForAllThatAreAlike)
{
	const auto all = std::make_shared<full>();
	std::list<waiting> crowd;
	with_waiters(100, all, crowd, [&](relay::queue &line) {
		line.changed();
		EXPECT_EQ(all->asked, 2) << "one that is plain, and another one";
		for (auto &each : crowd)
			EXPECT_FALSE(line.leave(each));
	});
}

} // namespace
