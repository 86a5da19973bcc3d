/* SPDX-License-Identifier: MIT */
/* Labels: long */
/*
 * Paths that block in open(2), such as a FIFO without its other end, or a network file system that
 * does not answer: the relay reports this, keeps serving, reacts to later signals, and ends on
 * SIGTERM.
 */
#include "harness.hpp"

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace harness;

namespace
{

void write(const std::string &path, const std::string &text)
{
	std::ofstream(path) << text;
}

void replace_by_fifo(const std::string &path)
{
	unlink(path.c_str());
	ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
}

std::string config_for(const std::string &backend, const std::string &more = "")
{
	return "drain = 0\n[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n" + more +
	       "[groups.g]\nbackends = [\"" + backend + "\"]\n";
}

void expect_served(relay_process &relay, listener &backend)
{
	auto client = peer::connect(relay.address());
	auto server = backend.accept();
	client.send("to the backend");
	EXPECT_EQ(server.receive(14), "to the backend");
}

/* Whether the process has not taken the signal from the kernel yet. */
bool is_pending(pid_t pid, int signum)
{
	std::ifstream status("/proc/" + std::to_string(pid) + "/status");
	for (std::string line; std::getline(status, line);)
		if (line.starts_with("ShdPnd:"))
			return (std::stoull(line.substr(7), nullptr, 16) >> (signum - 1)) & 1;
	return false;
}

TEST(BlockedPath, TheLogStaysInItsFileWhileNobodyReadsTheFifo)
{
	const folder in;
	const std::string log = in / "log";
	listener backend;
	relay_process relay({"--access-log", log, "127.0.0.1:0", backend.address()});
	relay.address();
	std::rename(log.c_str(), (in / "log.1").c_str());
	replace_by_fifo(log);
	relay.signal(SIGHUP);
	relay.await_error("so the old file stays in use: nobody reads the FIFO");
	expect_served(relay, backend);
	EXPECT_TRUE(eventually([&] { return std::ifstream(in / "log.1").peek() != EOF; }));
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(BlockedPath, ALogThatIsAFifoIsReopenedWhileItIsFull)
{
	const folder in;
	const std::string log = in / "log";
	listener backend;
	replace_by_fifo(log);
	const int reader = open(log.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
	const int room = fcntl(reader, F_SETPIPE_SZ, 4096);
	ASSERT_EQ(::write(reader, std::string(4096, '#').data(), 4096), room);
	relay_process relay({"--access-log", log, "127.0.0.1:0", backend.address()});
	expect_served(relay, backend);
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; }));
	unlink(log.c_str());
	relay.signal(SIGHUP);
	EXPECT_TRUE(eventually([&] { return std::ifstream(log).peek() != EOF; }));
	::close(reader);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(BlockedPath, AConfigurationThatDoesNotAnswerIsRefused)
{
	const folder in;
	const std::string path = in / "relay.toml";
	listener backend;
	write(path, config_for(backend.address()));
	relay_process relay({"--config", path});
	relay.address();
	replace_by_fifo(path);
	EXPECT_FALSE(relay.reload());
	relay.await_error("the file system does not answer");
	expect_served(relay, backend);

	/* The relay reacts to later signals, although the thread that opens the FIFO still
	 * hangs. */
	unlink(path.c_str());
	write(path, config_for(backend.address()));
	EXPECT_TRUE(relay.reload());
	expect_served(relay, backend);
	EXPECT_EQ(relay.stop().status, 0);
}

TEST(BlockedPath, StopsWhileAConfigurationDoesNotAnswer)
{
	const folder in;
	const std::string path = in / "relay.toml";
	listener backend;
	write(path, config_for(backend.address()));
	relay_process relay({"--config", path});
	relay.address();
	replace_by_fifo(path);
	relay.signal(SIGHUP);
	EXPECT_EQ(relay.stop().status, 0);
}

/* The thread that reads it holds the lock of its stream. */
TEST(BlockedPath, StopsWhileAConfigurationDoesNotEnd)
{
	const folder in;
	const std::string path = in / "relay.toml";
	listener backend;
	write(path, config_for(backend.address()));
	relay_process relay({"--config", path});
	relay.address();
	replace_by_fifo(path);
	relay.signal(SIGHUP);
	/* A writer can open the file only if there is a reader. */
	int writer = -1;
	EXPECT_TRUE(eventually([&] {
		writer = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		return writer >= 0;
	}));
	EXPECT_EQ(relay.stop().status, 0);
	::close(writer);
}

/* The same for a relay that cannot start because of the file. Its socket's file goes with it. */
TEST(BlockedPath, EndsIfAFileDoesNotEndAtTheStart)
{
	const folder in;
	const std::string path = in / "relay.toml";
	const std::string token = in / "token";
	replace_by_fifo(token);
	const int writer = open(token.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
	write(path, "control = \"127.0.0.1:0\"\ncontrol_token_file = \"" + token +
			    "\"\n[listeners.web]\naddress = \"unix:" + in / "web" +
			    "\"\ngroup = \"g\"\n[groups.g]\nbackends = [\"127.0.0.1:1\"]\n");
	relay_process relay({"--config", path});
	EXPECT_TRUE(eventually([&] { return std::filesystem::exists(in / "web"); }));
	const auto how = relay.wait();
	EXPECT_EQ(how.status, 1);
	EXPECT_NE(how.errors.find(" cannot_serve "), std::string::npos) << how.errors;
	EXPECT_NE(how.errors.find("the file system does not answer"), std::string::npos);
	EXPECT_FALSE(std::filesystem::exists(in / "web"));
	::close(writer);
}

/* Clients that wait for each other's reloads. Each of these takes as long as a file may. */
class Queued : public testing::Test
{
protected:
	Queued() { write(path, "control = \"" + control + "\"\n" + config_for(backend.address())); }
	~Queued() override { ::close(writer); }

	/* Returns once the first of the reloads has begun, and the others wait. */
	void send_reloads()
	{
		replace_by_fifo(path);
		for (int i = 0; i < 8; i++) {
			/* After the first answer the server has the second request. */
			clients.push_back(peer::sending("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
							"POST /reload HTTP/1.1\r\nHost: a\r\n\r\n",
							control));
			EXPECT_EQ(clients.back().receive(12), "HTTP/1.1 200");
		}
		/* A writer can open the file only if there is a reader. */
		EXPECT_TRUE(eventually([&] {
			writer = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
			return writer >= 0;
		}));
	}

	/* Returns what it has printed. */
	static std::string expect_stops_without_them(relay_process &relay)
	{
		const auto how = relay.stop();
		EXPECT_EQ(how.status, 0);
		EXPECT_EQ(count_of(" not_reloaded ", how.errors), 1U) << how.errors;
		return how.errors;
	}

	const folder in;
	const std::string path = in / "relay.toml";
	const std::string control = "unix:" + in / "control";
	listener backend;
	int writer = -1;
	std::vector<peer> clients;
};

TEST_F(Queued, ReloadsDoNotDelayTheStop)
{
	relay_process relay({"--config", path});
	relay.await_error(" serves");
	send_reloads();
	expect_stops_without_them(relay);
}

/* The task that answers signals waits for these clients then. */
TEST_F(Queued, ReloadsDoNotDelayTheStopAfterAnotherSignal)
{
	relay_process relay({"--config", path});
	relay.await_error(" serves");
	send_reloads();
	/* That signal is answered, too, though nothing is reloaded. */
	relay.signal(SIGUSR1);
	ASSERT_TRUE(eventually([&] { return !is_pending(relay.pid(), SIGUSR1); }));
	const auto printed = expect_stops_without_them(relay);
	EXPECT_EQ(count_of(" counters ", printed), 1U) << printed;
}

/* It would surprise a client that counts it as failed. */
TEST(BlockedPath, AChangeWhoseClientHasGivenUpIsNotMade)
{
	const folder in;
	const std::string path = in / "relay.toml";
	const std::string control = "unix:" + in / "control";
	listener backend;
	write(path, "control = \"" + control + "\"\n" + config_for(backend.address()));
	relay_process relay({"--config", path});
	relay.await_error(" serves");
	const auto ctl = [&](std::vector<std::string> arguments) {
		arguments.insert(arguments.begin(), {"ctl", "--at", control});
		relay_process client(arguments);
		return client.wait();
	};
	const auto before = ctl({"config"}).output;
	replace_by_fifo(path);
	auto reloading = peer::sending("POST /reload HTTP/1.0\r\nHost: a\r\n\r\n", control);
	int writer = -1;
	EXPECT_TRUE(eventually([&] {
		writer = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		return writer >= 0;
	}));
	const auto given_up = ctl({"--timeout", "1s", "drain", "g", backend.address()});
	EXPECT_EQ(given_up.status, 1) << given_up.output;
	/* One that only ends its own stream waits for the answer. */
	auto patient = peer::sending("POST /backends/add?group=g&backend=127.0.0.1:1 "
				     "HTTP/1.0\r\nHost: a\r\n\r\n",
				     control);
	patient.shutdown_write();
	EXPECT_NE(reloading.receive_rest().first.find(" 409 "), std::string::npos);
	EXPECT_NE(patient.receive_rest().first.find(" 200 "), std::string::npos);
	const auto after = ctl({"config"}).output;
	EXPECT_NE(after, before);
	EXPECT_EQ(after.find("weight"), std::string::npos) << after;
	EXPECT_EQ(count_of(" changed ", relay.errors()), 1U) << relay.errors();
	::close(writer);
	EXPECT_EQ(relay.stop().status, 0);
}

/* Over TCP the end of a client's own stream looks as if it had left. The manual says so. */
TEST(BlockedPath, AClientOfTcpKeepsItsStreamOpenWhileItWaits)
{
	const folder in;
	const std::string path = in / "relay.toml";
	const file token("0123456789abcdef\n");
	ASSERT_EQ(chmod(token.name().c_str(), 0600), 0);
	listener backend;
	write(path, "control = \"127.0.0.1:0\"\ncontrol_token_file = \"" + token.name() + "\"\n" +
			    config_for(backend.address()));
	relay_process relay({"--config", path});
	relay.await_error(" serves");
	const std::string start = "control on ";
	std::string printed;
	ASSERT_TRUE(eventually([&] {
		printed = relay.output();
		return printed.find(start) != printed.npos &&
		       printed.find('\n', printed.find(start)) != printed.npos;
	}));
	const auto at = printed.find(start) + start.size();
	const auto control = printed.substr(at, printed.find('\n', at) - at);
	const auto ask = [&](const std::string &what) {
		return peer::sending("POST " + what +
					     " HTTP/1.0\r\nHost: localhost\r\n"
					     "Authorization: Bearer 0123456789abcdef\r\n\r\n",
				     control);
	};
	replace_by_fifo(path);
	auto reloading = ask("/reload");
	int writer = -1;
	EXPECT_TRUE(eventually([&] {
		writer = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		return writer >= 0;
	}));
	/* After the first answer the server has the second request. */
	auto half_closed = peer::sending("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
					 "POST /backends/add?group=g&backend=127.0.0.1:1 "
					 "HTTP/1.1\r\nHost: localhost\r\n"
					 "Authorization: Bearer 0123456789abcdef\r\n\r\n",
					 control);
	EXPECT_EQ(half_closed.receive(12), "HTTP/1.1 200");
	half_closed.shutdown_write();
	auto open_until_then = ask("/backends/add?group=g&backend=127.0.0.1:2");
	EXPECT_NE(half_closed.receive_rest().first.find(" 503 "), std::string::npos);
	EXPECT_NE(open_until_then.receive_rest().first.find(" 200 "), std::string::npos);
	EXPECT_NE(reloading.receive_rest().first.find(" 409 "), std::string::npos);
	::close(writer);
	const auto how = relay.stop();
	EXPECT_EQ(how.status, 0);
	EXPECT_EQ(count_of(" changed ", how.errors), 1U) << how.errors;
}

TEST(BlockedPath, AListThatDoesNotAnswerStaysAsItWas)
{
	const folder in;
	const std::string path = in / "relay.toml";
	const std::string list = in / "list";
	listener backend;
	write(list, "127.0.0.1\n");
	write(path, config_for(backend.address(), "allow_file = \"" + list + "\"\n"));
	relay_process relay({"--config", path});
	relay.address();
	replace_by_fifo(list);
	relay.await_error("lists_not_reread");
	expect_served(relay, backend);
	EXPECT_FALSE(relay.reload());
	expect_served(relay, backend);
	EXPECT_EQ(relay.stop().status, 0);
}

} // namespace
