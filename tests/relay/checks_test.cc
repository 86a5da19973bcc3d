/* SPDX-License-Identifier: MIT */
/* Labels: core */
/* Active checks of backends: a backend that fails them gets no clients until they succeed again. */
#include "harness.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <mutex>
#include <poll.h>
#include <thread>

using namespace harness;

namespace
{

/* Answers a client's "who" with its name, and a check's "ok?" with "yes!", or with "no" when it is
 * ill. */
class answering
{
public:
	explicit answering(char name) : name_(1, name) {}
	const std::string &address() const { return served_.address(); }
	void be_well(bool well) { well_ = well; }

private:
	const std::string name_;
	std::atomic<bool> well_{true};
	serving served_{[this](peer &client) {
		if (client.receive(3) == "ok?")
			client.send(well_ ? "yes!" : "no");
		else
			client.send(name_);
	}};
};

/* Answers each HTTP request, once its empty line has come, with the text that was set. */
class http_answering
{
public:
	explicit http_answering(const std::string &answer) : answer_(answer) {}
	const std::string &address() const { return served_.address(); }
	std::string port() const { return served_.port(); }
	void answer(const std::string &by)
	{
		const std::lock_guard lock(lock_);
		answer_ = by;
	}
	std::string asked()
	{
		const std::lock_guard lock(lock_);
		return asked_;
	}

private:
	std::mutex lock_;
	std::string answer_;
	std::string asked_;
	serving served_{[this](peer &client) {
		std::string request;
		while (!request.ends_with("\r\n\r\n"))
			request += client.receive(1);
		const std::lock_guard lock(lock_);
		asked_ = request;
		client.send(answer_);
	}};
};

std::string text(const std::vector<std::string> &backends, const std::string &check,
		 const std::string &more = "")
{
	std::string list;
	for (const auto &each : backends)
		list += (list.empty() ? "\"" : ", \"") + each + '"';
	return "drain = 0\nadmin = \"127.0.0.1:0\"\n"
	       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
	       "[groups.g]\nslow_return = 0\nbackends = [" +
	       list + "]\n" + more + (check.empty() ? "" : "[groups.g.check]\n" + check);
}

const std::string quick = "interval = \"20ms\"\ntimeout = \"10s\"\nfall = 2\nrise = 2\n";
const std::string asks = quick + "send = \"ok?\"\nexpect = \"yes!\"\n";

bool is_state(relay_process &relay, const std::string &address, const std::string &state)
{
	return relay.metric("backend_state{group=\"g\",backend=\"" + address + "\",state=\"" +
			    state + "\"}") == 1;
}

/* Nothing is known about the backend yet: `fall` applies to one that was up. */
TEST(Checks, TheFirstOneDecides)
{
	http_answering bad("HTTP/1.1 500 Bad\r\n\r\n");
	configured_relay relay(
		text({bad.address()}, "interval = \"1h\"\nfall = 3\nhttp = \"GET /\"\n"));
	relay.await_error("backend " + bad.address() + " of g is down: ");
	EXPECT_EQ(
		relay.metric("backend_checks_total{group=\"g\",backend=\"" + bad.address() + "\"}"),
		1U);
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(Checks, ABackendThatAnswersWronglyGetsNoClients)
{
	answering a('a');
	answering b('b');
	configured_relay relay(text({a.address(), b.address()}, asks));
	EXPECT_TRUE(eventually([&] { return is_state(relay, a.address(), "up"); }));
	EXPECT_EQ(served_by(relay, 4), "abab");
	a.be_well(false);
	relay.await_error("backend " + a.address() +
			  " of g is down: its answer is not the expected one");
	EXPECT_TRUE(is_state(relay, a.address(), "down"));
	EXPECT_EQ(served_by(relay, 4), "bbbb");
	EXPECT_GE(relay.counter("check_failures"), 2U);
	const std::string labels = "{group=\"g\",backend=\"" + a.address() + "\"}";
	EXPECT_GE(relay.metric("backend_check_failures_total" + labels), 2U);
	EXPECT_GE(relay.metric("backend_checks_total" + labels), 2U);

	b.be_well(false);
	relay.await_error("backend " + b.address() + " of g is down");
	auto client = peer::connect(relay.address());
	EXPECT_EQ(client.receive_end(), ending::fin)
		<< "a backend that reports itself ill is not used";
	EXPECT_EQ(relay.metric("connections_ended_total{listener=\"web\",cause=\"no_backend\"}"),
		  1U);

	a.be_well(true);
	relay.await_error("backend " + a.address() + " of g is up again");
	EXPECT_EQ(served_by(relay, 4), "aaaa");
	EXPECT_EQ(relay.counter("retries"), 0U);
	stop(relay);
}

TEST(Checks, ConnectingIsACheckToo)
{
	listener down("127.0.0.1", -1);
	answering b('b');
	configured_relay relay(text({down.address(), b.address()}, quick));
	relay.await_error("backend " + down.address() + " of g is down: ");
	const auto before = relay.counter("retries");
	EXPECT_EQ(served_by(relay, 6), "bbbbbb");
	EXPECT_EQ(relay.counter("retries"), before) << "clients do not try a backend that is down";
	down.listen();
	relay.await_error("backend " + down.address() + " of g is up again");
	stop(relay);
}

TEST(Checks, ASilentBackendIsDown)
{
	/* The kernel completes the connection; nothing is ever sent. */
	const listener silent;
	answering b('b');
	configured_relay relay(
		text({silent.address(), b.address()},
		     "interval = \"20ms\"\ntimeout = \"50ms\"\nfall = 1\nrise = 1000\n"
		     "expect = \"yes!\"\n"));
	relay.await_error("backend " + silent.address() + " of g is down: ");
	stop(relay);
}

/* Bytes that text of TOML cannot have, and digits that may be anything, in two pieces. */
TEST(Checks, MayAskInHexadecimalDigits)
{
	const std::string good = "\x16\x03\x03\x80\xff and more";
	const std::string bad = "\x16\x03\x03\x70\xff and more";
	listener backend;
	const file config(text({backend.address()},
			       "interval = \"10ms\"\ntimeout = \"10s\"\nfall = 1\nrise = 1\n"
			       "send_hex = \"ff 00 80\"\nexpect_hex = \"16 03 0? 8? ff\"\n"));
	relay_process relay({"--config", config.name()});
	const auto check = [&](const std::string &answer) {
		auto asked = backend.accept();
		EXPECT_EQ(asked.receive(3), std::string("\xff\0\x80", 3));
		asked.send(answer.substr(0, 3));
		asked.send(answer.substr(3));
	};
	check(bad);
	const std::string name = "backend " + backend.address() + " of g is ";
	relay.await_error(name + "down: its answer is not the expected one");
	check(good);
	relay.await_error(name + "up again");
	check(good.substr(0, 4)); /* and the end of the connection */
	relay.await_error(name + "down: its answer is not the expected one");
	EXPECT_EQ(relay.stop().status, 0);
}

const std::string healthy = "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok";
const std::string ill = "HTTP/1.1 503 Service Unavailable\r\n\r\n";

/* Patroni and Galera's clustercheck report at a port of their own whether the database is the
 * primary. */
TEST(Checks, MayAskOverHttpAtAnotherPort)
{
	answering a('a');
	http_answering other(ill);
	/* The checks send no PROXY header. */
	const std::string both = text({a.address()}, "", "send_proxy = \"v1\"\n");
	configured_relay relay(both + "[groups.g.check]\n" + quick + "port = " + other.port() +
			       "\nhttp = \"GET /primary\"\nstatus = 200\n");
	const std::string name = "backend " + a.address() + " of g";
	relay.await_error(name + " is down: its answer has the status 503");
	EXPECT_EQ(other.asked(), "GET /primary HTTP/1.1\r\nHost: 127.0.0.1:" + other.port() +
					 "\r\nUser-Agent: sennit-relay\r\nAccept: */*\r\n"
					 "Connection: close\r\n\r\n");
	EXPECT_EQ(peer::connect(relay.address()).receive_end(), ending::fin);
	other.answer(healthy);
	relay.await_error(name + " is up again");
	EXPECT_TRUE(is_state(relay, a.address(), "up"));
	stop(relay);
}

/* The backend is down unless its answer is the expected one. */
TEST(Checks, OverHttpTakeNoOtherAnswer)
{
	http_answering other(healthy);
	configured_relay relay(text({other.address()},
				    "interval = \"10ms\"\ntimeout = \"500ms\"\nfall = 1\nrise = 1\n"
				    "http = \"HEAD /\"\nhost = \"db.test\"\n"));
	EXPECT_TRUE(eventually([&] { return is_state(relay, other.address(), "up"); }));
	EXPECT_NE(other.asked().find("\r\nHost: db.test\r\n"), std::string::npos);
	for (const std::string &answer :
	     {ill, std::string("HTTP/1.1 404 Not Found\r\n\r\n"), std::string("220 mail.test\r\n"),
	      std::string("HTTP/1.1 200 OK\n\n"), std::string("HTTP/1.1 200 OK"), std::string(),
	      "HTTP/1.1 200 " + std::string(5000, 'x') + "\r\n\r\n"}) {
		other.answer(answer);
		EXPECT_TRUE(eventually([&] { return is_state(relay, other.address(), "down"); }))
			<< answer;
		other.answer(healthy);
		EXPECT_TRUE(eventually([&] { return is_state(relay, other.address(), "up"); }));
	}
	relay.await_error(" of g is down: its answer has the status 404");
	relay.await_error(" of g is down: its answer is not one of HTTP/1");
	stop(relay);
}

/* A place that is set for a backend overrides the group's. */
TEST(Checks, MayGoToAnotherAddress)
{
	answering a('a');
	answering b('b');
	http_answering for_all(healthy);
	http_answering for_b(ill);
	configured_relay relay("drain = 0\nadmin = \"127.0.0.1:0\"\n"
			       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
			       "[groups.g]\nslow_return = 0\nbackends = [\"" +
			       a.address() + "\", { address = \"" + b.address() +
			       "\", check = { address = \"" + for_b.address() +
			       "\" } }]\n[groups.g.check]\n" + quick + "address = \"" +
			       for_all.address() + "\"\nhttp = \"GET /\"\n");
	relay.await_error("backend " + b.address() + " of g is down: ");
	EXPECT_TRUE(eventually([&] { return is_state(relay, a.address(), "up"); }));
	EXPECT_EQ(served_by(relay, 4), "aaaa");
	for_b.answer(healthy);
	for_all.answer(ill);
	relay.await_error("backend " + a.address() + " of g is down: ");
	relay.await_error("backend " + b.address() + " of g is up again");
	EXPECT_EQ(served_by(relay, 4), "bbbb");
	stop(relay);
}

/* The checks of a round are spread over a part of the interval, instead of coming together. */
TEST(Checks, AreSpreadOverTheInterval)
{
	using clock = std::chrono::steady_clock;
	constexpr std::size_t backends = 40;
	constexpr std::size_t rounds = 30;
	std::vector<listener> doors(backends);
	std::vector<pollfd> entries;
	std::vector<std::string> addresses;
	for (const auto &each : doors) {
		addresses.push_back(each.address());
		entries.push_back({each.fd(), POLLIN, 0});
	}
	configured_relay relay(text(addresses, "interval = \"400ms\"\ntimeout = \"10s\"\n"));

	std::vector<std::vector<clock::time_point>> times(backends);
	const auto take = [&] {
		ASSERT_GT(poll(entries.data(), entries.size(), 40000), 0) << "no check came";
		for (std::size_t i = 0; i < backends; i++) {
			if (!entries[i].revents)
				continue;
			static_cast<void>(doors[i].accept());
			times[i].push_back(clock::now());
		}
	};
	const auto spread = [&](std::size_t round) {
		clock::time_point first = clock::time_point::max(), last{};
		for (const auto &each : times) {
			first = std::min(first, each[round]);
			last = std::max(last, each[round]);
		}
		return last - first;
	};
	/* A loaded machine may move the checks of one round together, but not those of every
	 * round. */
	bool is_spread = false;
	for (std::size_t round = 0; round < rounds && !is_spread; round++) {
		while (std::ranges::any_of(times,
					   [&](const auto &each) { return each.size() <= round; }))
			ASSERT_NO_FATAL_FAILURE(take());
		is_spread = round > 1 && spread(round) > 200ms && spread(round) < 500ms;
	}
	EXPECT_TRUE(is_spread);
	stop(relay);
}

/* The relay ends immediately even while a check waits for an answer, or for its next turn. */
TEST(Checks, DoNotDelayShutdown)
{
	const silent_backend unreachable;
	const listener silent;
	configured_relay relay(text({unreachable.address(), silent.address()},
				    "interval = \"1h\"\ntimeout = \"1h\"\nexpect = \"yes!\"\n"));
	relay.address();
	auto asked = silent.fd();
	pollfd entry{asked, POLLIN, 0};
	EXPECT_EQ(poll(&entry, 1, 40000), 1) << "no check came";
	const auto start = std::chrono::steady_clock::now();
	const ended end = relay.stop();
	EXPECT_EQ(end.status, 0) << end.errors;
	EXPECT_LT(std::chrono::steady_clock::now() - start, patience);
	EXPECT_EQ(end.errors.find("backend_"), end.errors.npos) << end.errors;
}

TEST(Checks, ComeAndGoWithReloads)
{
	answering a('a');
	answering b('b');
	a.be_well(false);
	const std::string without = text({a.address(), b.address()}, "");
	configured_relay relay(without);
	EXPECT_EQ(served_by(relay, 4), "abab");
	EXPECT_TRUE(is_state(relay, a.address(), "not checked"));
	ASSERT_TRUE(relay.reload(text({a.address(), b.address()}, asks)));
	relay.await_error("backend " + a.address() + " of g is down");
	EXPECT_EQ(served_by(relay, 3), "bbb");
	/* The state is kept: the backend need not fail again. */
	ASSERT_TRUE(relay.reload(text({a.address(), b.address()}, asks, "")));
	EXPECT_TRUE(is_state(relay, a.address(), "down"));
	EXPECT_EQ(served_by(relay, 3), "bbb");
	/* Without checks nothing would notice that the backend is well again. */
	ASSERT_TRUE(relay.reload(without));
	EXPECT_TRUE(is_state(relay, a.address(), "not checked"));
	EXPECT_EQ(served_by(relay, 4), "abab");
	for (int i = 0; i < 10; i++) {
		ASSERT_TRUE(relay.reload(i % 2 ? without : text({a.address(), b.address()}, asks)));
	}
	stop(relay);
}

} // namespace
