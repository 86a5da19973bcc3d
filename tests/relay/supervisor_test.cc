/* SPDX-License-Identifier: MIT */
/*
 * The relay under a first process (--supervise). container_test.py tests the same with the relay as
 * process 1.
 */
#include "harness.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace harness;

namespace
{

/* The processes of the relay, in the order in which they report that they serve. */
std::vector<pid_t> processes_serving(relay_process &relay, std::size_t how_many)
{
	std::vector<pid_t> found;
	EXPECT_TRUE(eventually([&] {
		found.clear();
		std::istringstream lines(relay.errors());
		for (std::string line; std::getline(lines, line);) {
			const auto at = line.find(" pid=");
			if (line.find(" info serving ") != line.npos && at != line.npos)
				found.push_back(std::atoi(line.c_str() + at + 5));
		}
		return found.size() >= how_many;
	})) << relay.errors();
	return found;
}

/* The process that serves after another handover. */
pid_t hand_over(relay_process &relay)
{
	const auto before = processes_serving(relay, 1).size();
	relay.signal(SIGUSR2);
	const pid_t pid = processes_serving(relay, before + 1).back();
	relay.await_error("handed over to process " + std::to_string(pid) + "\"");
	return pid;
}

/* The state as ps shows it, "Z" for a zombie; nothing if there is no such process. */
std::string state_of(pid_t pid)
{
	std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
	std::string text;
	std::getline(file, text);
	const auto at = text.rfind(')');
	return at == text.npos ? "" : text.substr(at + 2, 1);
}

/* Whether the process has ended, with all of its threads; nobody need have waited for it. */
bool has_ended(pid_t pid)
{
	const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
	pollfd end = {fd, POLLIN, 0};
	const bool ended = fd >= 0 && poll(&end, 1, 0) == 1;
	close(fd);
	return ended;
}

/* While it is stopped, the first process notices nothing. */
void suspend(relay_process &relay)
{
	relay.signal(SIGSTOP);
	EXPECT_TRUE(eventually([&] { return state_of(relay.pid()) == "T"; }));
}

void serves(const std::string &address, listener &backend)
{
	auto client = peer::sending("x", address);
	auto served = backend.accept();
	EXPECT_EQ(served.receive(1), "x");
	served.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
}

class Supervisor : public testing::Test
{
protected:
	listener backend;

	std::vector<std::string> with(std::vector<std::string> more = {}) const
	{
		more.insert(more.begin(), "--supervise");
		more.insert(more.end(), {"127.0.0.1:0", backend.address()});
		return more;
	}
};

TEST_F(Supervisor, StaysWhileProcessesComeAndGo)
{
	relay_process relay(with());
	const std::string address = relay.address();
	auto client = peer::connect(address);
	auto old = backend.accept();
	std::vector<pid_t> all = processes_serving(relay, 1);
	EXPECT_NE(all[0], relay.pid());
	for (int i = 0; i < 3; i++) {
		all.push_back(hand_over(relay));
		serves(address, backend);
	}
	/* The first process still has a connection. Those between have ended; the id of each is
	 * kept as long as its parent lives. */
	EXPECT_TRUE(eventually([&] { return state_of(all[1]) == "Z"; }));
	EXPECT_TRUE(eventually([&] { return state_of(all[2]).empty(); }));
	EXPECT_TRUE(eventually([&] { return relay.counter("active") == 0; })) << "of the newest";
	client.send("still");
	EXPECT_EQ(old.receive(5), "still");
	old.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	client.close();
	for (const pid_t pid : {all[0], all[1]})
		EXPECT_TRUE(eventually([&] { return state_of(pid).empty(); }));
	EXPECT_NE(state_of(all[3]), "");
	serves(address, backend);
	stop(relay);
}

TEST_F(Supervisor, StopsEveryProcess)
{
	relay_process relay(with({"--drain", "1h"}));
	const std::string address = relay.address();
	auto first = peer::connect(address);
	auto first_served = backend.accept();
	hand_over(relay);
	relay.await_error("notice draining connections=1 ");
	auto second = peer::connect(address);
	auto second_served = backend.accept();
	relay.signal(SIGTERM);
	EXPECT_TRUE(eventually([&] {
		const std::string said = relay.errors();
		const std::string start = "notice draining connections=1 drain_ms=3600000 ";
		const auto at = said.find(start);
		return at != said.npos && said.find(start, at + 1) != said.npos;
	})) << relay.errors();
	/* Each process has its drain time. */
	first.send("one");
	EXPECT_EQ(first_served.receive(3), "one");
	second.send("two");
	EXPECT_EQ(second_served.receive(3), "two");
	relay.signal(SIGTERM);
	EXPECT_EQ(first.receive_end(), ending::reset);
	EXPECT_EQ(second.receive_end(), ending::reset);
	EXPECT_EQ(relay.wait().status, 0);
}

/* The file of the log is renamed, and may be compressed and removed later. A process that only
 * finishes its connections has lines to write, too. */
TEST_F(Supervisor, ReopensTheLogOfEveryProcess)
{
	const folder here;
	const std::string log = here / "access.log";
	relay_process relay(with({"--access-log", log}));
	auto client = peer::connect(relay.address());
	auto served = backend.accept();
	const pid_t old = processes_serving(relay, 1).back();
	const pid_t newest = hand_over(relay);
	relay.await_error("notice draining connections=1 ");
	ASSERT_EQ(rename(log.c_str(), (log + ".1").c_str()), 0);
	relay.signal(SIGHUP);
	for (const pid_t pid : {old, newest})
		EXPECT_TRUE(eventually([&] { return has_open(pid, log); }));
	served.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	client.close();
	EXPECT_TRUE(eventually([&] { return state_of(old).empty(); }));
	std::ifstream lines(log);
	std::string line;
	EXPECT_TRUE(std::getline(lines, line));
	EXPECT_NE(line.find(" backend=" + backend.address()), line.npos) << line;
	stop(relay);
}

TEST_F(Supervisor, KeepsTheOldProcessIfAHandoverFails)
{
	const auto text = [this](const std::string &key) {
		return key + "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n" +
		       "[groups.g]\nbackends = [\"" + backend.address() + "\"]\n";
	};
	file config(text(""));
	relay_process relay({"--supervise", "--config", config.name()});
	const std::string address = relay.address();
	config.write(text("nothing = 1\n"));
	relay.signal(SIGUSR2);
	relay.await_error("not handed over: the new process has ended");
	serves(address, backend);
	EXPECT_FALSE(relay.reload()) << "the relay still gets signals";
	config.write(text("drain = 1\n"));
	EXPECT_TRUE(relay.reload());
	hand_over(relay);
	serves(address, backend);
	stop(relay);
}

/* The supervisor ends in the same way as the relay, so that the service manager restarts it. */
TEST_F(Supervisor, EndsWhenTheRelayDies)
{
	relay_process relay(with());
	kill(processes_serving(relay, 1).back(), SIGKILL);
	const ended end = relay.wait();
	EXPECT_EQ(end.status, 128 + SIGKILL);
	EXPECT_NE(end.errors.find("error relay_died pid="), end.errors.npos) << end.errors;
}

/* Its parent may ignore SIGCHLD, as a shell does after `trap '' CHLD`, and programs inherit that.
 * The kernel then reaps children, and no process could learn of their end by waiting for them. */
TEST_F(Supervisor, EndsIfItsParentIgnoresTheEndOfChildren)
{
	const auto started = [this] {
		std::signal(SIGCHLD, SIG_IGN);
		auto made = std::make_unique<relay_process>(with());
		std::signal(SIGCHLD, SIG_DFL);
		return made;
	};
	const auto relay = started();
	serves(relay->address(), backend);
	hand_over(*relay);
	stop(*relay);

	const auto dying = started();
	kill(processes_serving(*dying, 1).back(), SIGKILL);
	EXPECT_EQ(dying->wait().status, 128 + SIGKILL);
}

/* This holds even if an older process has a connection that could last forever, and is the parent
 * of the process that dies. */
TEST_F(Supervisor, CutsTheOldProcessesWhenTheNewestDies)
{
	relay_process relay(with({"--drain", "1h"}));
	auto client = peer::connect(relay.address());
	auto served = backend.accept();
	kill(hand_over(relay), SIGKILL);
	EXPECT_EQ(client.receive_end(), ending::reset);
	EXPECT_EQ(served.receive_end(), ending::reset);
	EXPECT_EQ(relay.wait().status, 128 + SIGKILL);
}

/* If an older process dies, its own connections end, and nothing else happens. */
TEST_F(Supervisor, GoesOnWhenAnOldProcessDies)
{
	relay_process relay(with());
	const std::string address = relay.address();
	auto client = peer::connect(address);
	auto served = backend.accept();
	const pid_t first = processes_serving(relay, 1).back();
	hand_over(relay);
	kill(first, SIGKILL);
	EXPECT_TRUE(eventually([&] { return state_of(first).empty(); }));
	serves(address, backend);
	stop(relay);
}

/* The first process learns of the handover and of the end at the same time. */
TEST_F(Supervisor, GoesOnWhenAnOldProcessDiesAtOnce)
{
	relay_process relay(with());
	const std::string address = relay.address();
	const pid_t first = processes_serving(relay, 1).back();
	suspend(relay);
	kill(first, SIGUSR2);
	const pid_t second = processes_serving(relay, 2).back();
	relay.await_error("handed over to process " + std::to_string(second) + "\"");
	kill(first, SIGKILL);
	EXPECT_TRUE(eventually([&] { return has_ended(first); }));
	relay.signal(SIGCONT);
	EXPECT_TRUE(eventually([&] { return state_of(first).empty(); }));
	hand_over(relay);
	serves(address, backend);
	stop(relay);
}

/* Before it has learned of the new process, it passes a SIGHUP on to the old one only, which then
 * must not end without it. */
TEST_F(Supervisor, NoReloadIsLostInAHandover)
{
	const auto text = "drain = 0\n[listeners.web]\naddress = '127.0.0.1:0'\ngroup = 'g'\n"
			  "[groups.g]\nbackends = ['" +
			  backend.address() + "']\n";
	file config(text);
	relay_process relay({"--supervise", "--config", config.name()});
	const pid_t old = processes_serving(relay, 1).back();
	suspend(relay);
	kill(old, SIGUSR2);
	relay.await_error("handed over to process ");
	relay.await_error("notice draining ");
	for (std::size_t i = 1; i <= 3; i++) {
		kill(old, SIGHUP); /* as the first process would have */
		EXPECT_TRUE(eventually(
			[&] { return count_of("notice reloaded ", relay.errors()) == i; }));
		/* Nothing else keeps the old process, which would have time to end. */
		std::this_thread::sleep_for(200ms);
	}
	relay.signal(SIGCONT);
	EXPECT_TRUE(eventually([&] { return state_of(old).empty(); }));
	serves(relay.address(), backend);
	/* From now on the old one has no part in it. */
	EXPECT_TRUE(relay.reload());
	stop(relay);
}

/* The terminal's ^C goes to all processes. The newest may have ended because of it before the first
 * process has read it; an older one still has its drain time. */
TEST_F(Supervisor, LetsOldProcessesDrainWhenTheNewestWasStoppedBefore)
{
	relay_process relay(with({"--drain", "1h"}));
	auto client = peer::connect(relay.address());
	auto served = backend.accept();
	const pid_t newest = hand_over(relay);
	suspend(relay);
	kill(newest, SIGTERM);
	EXPECT_TRUE(eventually([&] { return has_ended(newest); }));
	relay.signal(SIGTERM);
	relay.signal(SIGCONT);
	relay.await_error("notice draining connections=1 drain_ms=3600000 ");
	/* A process that is to be cut gets another signal every 100 ms. */
	std::this_thread::sleep_for(std::chrono::milliseconds(300));
	client.send("still");
	EXPECT_EQ(served.receive(5), "still");
	served.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	client.close();
	EXPECT_EQ(relay.wait().status, 0);
}

TEST_F(Supervisor, HasTheStatusOfARelayThatCannotServe)
{
	const listener taken;
	relay_process relay({"--supervise", taken.address(), backend.address()});
	const ended end = relay.wait();
	EXPECT_EQ(end.status, 1);
	EXPECT_NE(end.errors.find("error cannot_serve "), end.errors.npos) << end.errors;
	EXPECT_EQ(end.errors.find("relay_died"), end.errors.npos) << end.errors;
}

TEST_F(Supervisor, CommandLinesAreCheckedFirst)
{
	relay_process relay({"--supervise", "--check", "127.0.0.1:1", "127.0.0.1:2"});
	EXPECT_EQ(relay.wait().status, 0);
	relay_process wrong({"--supervise", "127.0.0.1:1"});
	EXPECT_EQ(wrong.wait().status, 2);
}

/* Without the supervisor, the relay could no longer be stopped, so it ends. */
TEST_F(Supervisor, IsMissedWhenItIsKilled)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	relay_process relay(with({"--drain", "1h"}));
	const std::string address = relay.address();
	auto client = peer::connect(address);
	auto served = backend.accept();
	const pid_t old = processes_serving(relay, 1).back();
	const pid_t newest = hand_over(relay);
	relay.signal(SIGKILL);
	int status = -1;
	EXPECT_TRUE(eventually([&] { return state_of(newest) == "Z"; }));
	served.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	client.close();
	for (const pid_t pid : {old, newest}) {
		EXPECT_TRUE(eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; }));
		EXPECT_EQ(status, 0);
	}
	EXPECT_EQ(relay.wait().status, 128 + SIGKILL);
}

/* The sockets are passed on to the relay, whose process id differs from the supervisor's. When the
 * relay has closed them, clients are refused, unless the manager still has them. */
TEST_F(Supervisor, PassesSocketsOn)
{
	auto handed = std::make_unique<listener>();
	const std::string address = handed->address();
	relay_process relay({"--supervise", "--drain", "1h", address, backend.address()}, 0,
			    {handed->fd()});
	handed.reset();
	EXPECT_EQ(relay.address(), address);
	serves(address, backend);
	hand_over(relay);
	serves(address, backend);
	auto client = peer::connect(address);
	auto served = backend.accept();
	relay.signal(SIGTERM);
	EXPECT_TRUE(eventually([&] {
		try {
			peer::connect(address).reset();
			return false;
		} catch (const std::system_error &error) {
			return error.code() == std::errc::connection_refused;
		}
	}));
	client.close();
	EXPECT_EQ(served.receive_end(), ending::fin);
	served.close();
	EXPECT_EQ(relay.wait().status, 0);
}

/* Nor does it keep those for datagrams, which have no clients that could be refused. */
TEST_F(Supervisor, KeepsNoSocketForDatagrams)
{
	const int handed = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sockaddr_in at{};
	socklen_t length = sizeof at;
	at.sin_family = AF_INET;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT_EQ(bind(handed, reinterpret_cast<sockaddr *>(&at), length), 0);
	ASSERT_EQ(getsockname(handed, reinterpret_cast<sockaddr *>(&at), &length), 0);
	const file config(
		"[listeners.a]\naddress = \"udp:127.0.0.1:" + std::to_string(ntohs(at.sin_port)) +
		"\"\ngroup = \"g\"\n[groups.g]\nbackends = [\"127.0.0.1:9\"]\n");
	relay_process relay({"--supervise", "--config", config.name()}, 0, {handed});
	relay.address();
	const std::string name =
		std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(handed));
	close(handed);
	EXPECT_TRUE(has_open(processes_serving(relay, 1).back(), name));
	EXPECT_FALSE(has_open(relay.pid(), name));
	stop(relay);
}

/* The supervisor sleeps, even after a handover, during which its sleep is interrupted several
 * times. */
TEST_F(Supervisor, DoesNothingMeanwhile)
{
	relay_process relay(with());
	auto client = peer::connect(relay.address());
	auto served = backend.accept();
	hand_over(relay);
	relay.await_error("notice draining ");
	EXPECT_TRUE(relay.rests(20ms));
	client.close();
	EXPECT_EQ(served.receive_end(), ending::fin);
	served.close();
	EXPECT_EQ(relay.stop().status, 0);
}

} // namespace
