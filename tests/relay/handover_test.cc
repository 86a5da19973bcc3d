/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * A new process of the relay takes over from the old one: no client is refused, and open
 * connections finish. SENNIT_RELOADS is the number of handovers under traffic (3; the relay
 * promises 100).
 */
#include "datagrams.hpp"
#include "harness.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace harness;

namespace
{

/* When the old processes end, the new ones become children of this process, which can wait for
 * them. */
class Handover : public testing::Test
{
protected:
	Handover() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

	/* The process that the nth handover went to. */
	static pid_t successor(relay_process &relay, std::size_t nth)
	{
		const std::string start = "handed over to process ";
		std::string said;
		std::size_t at = 0;
		EXPECT_TRUE(eventually([&] {
			said = relay.errors();
			at = 0;
			for (std::size_t i = 0; i <= nth; i++) {
				at = said.find(start, i == 0 ? 0 : at + 1);
				if (at == said.npos)
					return false;
			}
			return said.find('\n', at) != said.npos;
		})) << said;
		return at == said.npos ? -1 : std::atoi(said.c_str() + at + start.size());
	}

	/* Waits until the relay's first process has ended, without reaping it, so that wait() gets
	 * its status. */
	static bool has_ended(const relay_process &relay)
	{
		siginfo_t info{};
		return waitid(P_PID, static_cast<id_t>(relay.pid()), &info,
			      WEXITED | WNOHANG | WNOWAIT) == 0 &&
		       info.si_pid == relay.pid();
	}

	static void await_end(const relay_process &relay)
	{
		EXPECT_TRUE(eventually([&] { return has_ended(relay); }));
	}

	static void end(pid_t pid)
	{
		int status = -1;
		kill(pid, SIGTERM);
		EXPECT_TRUE(eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; }));
		EXPECT_EQ(status, 0);
	}
};

void serves(const std::string &address, listener &backend)
{
	auto client = peer::sending("x", address);
	auto served = backend.accept();
	EXPECT_EQ(served.receive(1), "x");
	served.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
}

std::string listening_at(const std::string &name, const std::string &address)
{
	return "[listeners." + name + "]\naddress = \"" + address + "\"\ngroup = \"g\"\n";
}

/* Whether a signal has not been delivered yet to any thread of the process. */
bool is_pending(pid_t pid)
{
	std::ifstream status("/proc/" + std::to_string(pid) + "/status");
	for (std::string line; std::getline(status, line);)
		if (line.starts_with("ShdPnd:"))
			return line.find_first_of("123456789abcdef", 7) != line.npos;
	return false;
}

/* The new process gets the datagrams that clients send, and the sessions of the old one forward the
 * answers. */
TEST_F(Handover, OfUdpLosesNoAnswers)
{
	udp_peer backend, early, late;
	relay_process relay({"--drain", "0", "udp:127.0.0.1:0", backend.address()});
	const std::string address = relay.address();
	early.send(address, "q");
	const auto session = backend.receive().from;
	relay.signal(SIGUSR2);
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	EXPECT_EQ(relay.address(1), address);
	relay.await_error("notice draining connections=1");
	backend.send(session, "late");
	EXPECT_EQ(early.receive().bytes, "late");
	late.send(address, "r");
	const auto arrived = backend.receive();
	EXPECT_EQ(arrived.bytes, "r");
	backend.send(arrived.from, "a");
	EXPECT_EQ(late.receive().bytes, "a");
	early.send(address, "s");
	EXPECT_NE(backend.receive().from, session) << "the old process does not receive any more";
	relay.signal(SIGTERM); /* ends its sessions */
	await_end(relay);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
}

/* Sessions of a previous listener are served until they have been silent for their own timeout, not
 * only for a second. */
TEST_F(Handover, LeavesSessionsOfAFormerListenerAlone)
{
	udp_peer backend, client;
	const std::string rest = "drain = 0\n[listeners.b]\naddress = 'udp:127.0.0.1:0'\n"
				 "group = 'g'\n[groups.g]\nbackends = ['" +
				 backend.address() + "']\n";
	configured_relay relay(rest + "[listeners.a]\naddress = 'udp:127.0.0.1:0'\ngroup = 'g'\n"
				      "idle_timeout = '1h'\n");
	std::string from;
	std::string address;
	for (const std::size_t nth : {0, 1}) {
		address = relay.address(nth);
		client.send(address, "q");
		from = backend.receive().from;
	}
	ASSERT_TRUE(relay.reload(rest)) << relay.errors();
	relay.signal(SIGUSR2);
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	relay.await_error("notice draining connections=2");
	std::this_thread::sleep_for(1500ms);
	client.send(address, "r");
	EXPECT_EQ(backend.receive().from, from);
	relay.signal(SIGTERM);
	await_end(relay);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
}

TEST_F(Handover, LetsOpenConnectionsFinish)
{
	listener backend;
	relay_process relay(
		{"--drain", "0", "--admin", "127.0.0.1:0", "127.0.0.1:0", backend.address()});
	const std::string address = relay.address();
	const std::string admin = relay.admin_address();
	auto client = peer::connect(address);
	auto old = backend.accept();
	relay.signal(SIGUSR2);
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	EXPECT_EQ(relay.address(1), address) << "the same port";
	EXPECT_EQ(relay.admin_address(), admin);
	serves(address, backend);
	relay.await_error("notice draining connections=");
	client.send("still");
	EXPECT_EQ(old.receive(5), "still");
	old.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	client.close();
	/* The old process ends by itself. Both share a stderr, which has an end only when both have
	 * ended. */
	await_end(relay);
	serves(address, backend);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
}

/* Linux limits each string of the environment to 128 KiB. */
TEST_F(Handover, OfManyListenersWithLongNames)
{
	constexpr std::size_t listeners = 100;
	listener backend;
	std::string text = "drain = 0\n[groups.g]\nbackends = ['" + backend.address() + "']\n";
	for (std::size_t i = 0; i < listeners; i++)
		text += listening_at(std::string(1000, 'x') + std::to_string(i), "127.0.0.1:0");
	file config(text);
	relay_process relay({"--config", config.name()});
	relay.address(listeners - 1);
	relay.signal(SIGUSR2);
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	for (const std::size_t i : {std::size_t{0}, listeners - 1}) {
		EXPECT_EQ(relay.address(listeners + i), relay.address(i));
		serves(relay.address(i), backend);
	}
	await_end(relay);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
}

TEST_F(Handover, HasADrainTimeOfItsOwn)
{
	listener backend;
	relay_process relay(
		{"--drain", "1h", "--handover-drain", "300ms", "127.0.0.1:0", backend.address()});
	auto client = peer::connect(relay.address());
	auto old = backend.accept();
	relay.signal(SIGUSR2);
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	EXPECT_EQ(client.receive_end(), ending::reset);
	EXPECT_EQ(old.receive_end(), ending::reset);
	await_end(relay);
	serves(relay.address(), backend);
	end(pid);
	const ended over = relay.wait();
	EXPECT_EQ(over.status, 0);
	EXPECT_NE(over.errors.find("draining connections=1 drain_ms=300 "), over.errors.npos)
		<< over.errors;
}

/* If it is stopped, its connections have the time that they have whenever the relay stops. */
TEST_F(Handover, TheOldProcessCanBeStoppedToo)
{
	listener backend;
	relay_process relay({"--drain", "1h", "127.0.0.1:0", backend.address()});
	auto client = peer::connect(relay.address());
	auto old = backend.accept();
	relay.signal(SIGUSR2);
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	relay.await_error("notice draining connections=1 ");
	relay.signal(SIGTERM);
	relay.await_error("notice draining connections=1 drain_ms=3600000 ");
	client.send("still");
	EXPECT_EQ(old.receive(5), "still");
	relay.signal(SIGTERM);
	EXPECT_EQ(client.receive_end(), ending::reset);
	await_end(relay);
	serves(relay.address(), backend);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
}

/* The file of a Unix socket stays as long as either process serves, and the last one removes it. */
TEST_F(Handover, TakesUnixSocketsAlong)
{
	const folder here;
	/* The path contains the separators of the list of sockets. */
	const std::string path = here / "a,b;c=d e.sock", admin = here / "admin.sock";
	listener backend;
	relay_process relay({"--admin", "unix:" + admin, "unix:" + path, backend.address(),
			     "unix:@", backend.address()});
	const std::string address = relay.address(0), any = relay.address(1);
	const auto inode = inode_of(path), admin_inode = inode_of(admin);
	ASSERT_NE(inode, 0U);
	serves(address, backend);
	relay.signal(SIGUSR2);
	pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	EXPECT_EQ(relay.address(2), address);
	EXPECT_EQ(relay.address(3), any) << "the same name";
	await_end(relay);
	EXPECT_EQ(inode_of(path), inode) << "the old process does not remove it";
	EXPECT_EQ(inode_of(admin), admin_inode);
	serves(address, backend);
	serves(any, backend);
	EXPECT_NO_THROW(peer::connect("unix:" + admin));
	/* A second handover, from a process that has not created the file itself. */
	const pid_t second = pid;
	kill(second, SIGUSR2);
	pid = successor(relay, 1);
	ASSERT_GT(pid, 0);
	int status = -1;
	EXPECT_TRUE(eventually([&] { return waitpid(second, &status, WNOHANG) == second; }));
	EXPECT_EQ(status, 0);
	EXPECT_EQ(inode_of(path), inode);
	serves(address, backend);
	end(pid);
	EXPECT_EQ(inode_of(path), 0U);
	EXPECT_EQ(inode_of(admin), 0U);
	EXPECT_EQ(relay.wait().status, 0);
}

/* If a new process fails, it does not remove the file either. */
/* The handover sets the mode, as a reload does. */
TEST_F(Handover, GivesTheControlSocketItsMode)
{
	const folder here;
	const std::string path = here / "control";
	const auto text = [&](const std::string &mode) {
		return "control = 'unix:" + path + "'\ncontrol_mode = '" + mode +
		       "'\n[listeners.a]\naddress = '127.0.0.1:0'\ngroup = 'g'\n"
		       "[groups.g]\nbackends = ['127.0.0.1:9']\n";
	};
	const auto mode_of = [](const std::string &file) {
		struct stat found {
		};
		return lstat(file.c_str(), &found) == 0 ? found.st_mode & 0777 : 0;
	};
	file config(text("0660"));
	relay_process relay({"--config", config.name()});
	relay.await_error(" serves");
	EXPECT_EQ(mode_of(path), 0660U);
	config.write(text("0600"));
	relay.signal(SIGUSR2);
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	EXPECT_TRUE(eventually([&] { return mode_of(path) == 0600U; }));
	await_end(relay);
	end(pid);
	EXPECT_EQ(mode_of(path), 0U);
	EXPECT_EQ(relay.wait().status, 0);
}

TEST_F(Handover, ThatFailsLeavesUnixSocketsAlone)
{
	const folder here;
	const std::string path = here / "a.sock";
	listener backend;
	listener taken;
	const std::string rest = "[groups.g]\nbackends = [\"" + backend.address() + "\"]\n";
	const std::string first =
		"[listeners.web]\naddress = \"unix:" + path + "\"\ngroup = \"g\"\n";
	file config(first + rest);
	relay_process relay({"--config", config.name()});
	serves(relay.address(), backend);
	const auto inode = inode_of(path);
	/* The new process adopts the first listener, and cannot open the second. */
	config.write(first + "[listeners.no]\naddress = \"" + taken.address() +
		     "\"\ngroup = \"g\"\n" + rest);
	relay.signal(SIGUSR2);
	relay.await_error("not handed over: the new process has ended");
	EXPECT_EQ(inode_of(path), inode);
	serves(relay.address(), backend);
	stop(relay);
	EXPECT_EQ(inode_of(path), 0U) << "the relay owns the file again";
}

/* Another program removes the relay's file and listens at the path: that file does not belong to
 * the new process. */
TEST_F(Handover, TakesNoFileThatReplacedItsOwn)
{
	const folder here;
	const std::string before = here / "before", during = here / "during";
	listener backend;
	const std::string text = listening_at("a", "unix:" + before) +
				 listening_at("b", "unix:" + during) +
				 "[groups.g]\nbackends = [\"" + backend.address() + "\"]\n";
	const std::string config = here / "config";
	std::ofstream(config) << text;
	relay_process relay({"--config", config});
	relay.address(1);
	unlink(before.c_str());
	listener first("unix:" + before);
	const auto first_inode = inode_of(before);

	/* The new process has inherited its sockets, and then waits for its configuration. */
	unlink(config.c_str());
	ASSERT_EQ(mkfifo(config.c_str(), 0600), 0);
	relay.signal(SIGUSR2);
	int pipe = -1;
	EXPECT_TRUE(eventually([&] {
		pipe = open(config.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		return pipe >= 0;
	}));
	unlink(during.c_str());
	listener second("unix:" + during);
	const auto second_inode = inode_of(during);
	EXPECT_EQ(write(pipe, text.data(), text.size()), static_cast<ssize_t>(text.size()));
	close(pipe);

	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	await_end(relay);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
	EXPECT_EQ(inode_of(before), first_inode);
	EXPECT_EQ(inode_of(during), second_inode);
	EXPECT_NO_THROW(peer::connect(first.address()));
	EXPECT_NO_THROW(peer::connect(second.address()));
}

/* Removes the files of listeners that are not in the new process's configuration. */
TEST_F(Handover, RemovesTheFilesThatNobodyNeeds)
{
	const folder here;
	const std::string kept = here / "kept", gone = here / "gone", lost = here / "lost";
	const std::string admin = here / "admin";
	listener backend;
	const std::string rest = listening_at("kept", "unix:" + kept) +
				 "[groups.g]\nbackends = [\"" + backend.address() + "\"]\n";
	file config("drain = \"1h\"\nadmin = \"unix:" + admin + "\"\n" +
		    listening_at("gone", "unix:" + gone) + listening_at("lost", "unix:" + lost) +
		    rest);
	relay_process relay({"--config", config.name()});
	relay.address(2);
	EXPECT_NE(inode_of(gone), 0U);
	EXPECT_NE(inode_of(admin), 0U);
	auto client = peer::connect("unix:" + gone);
	auto served = backend.accept();
	unlink(lost.c_str());
	listener other("unix:" + lost);

	config.write(rest);
	relay.signal(SIGUSR2);
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	EXPECT_TRUE(eventually([&] { return inode_of(gone) == 0 && inode_of(admin) == 0; }));
	EXPECT_NE(inode_of(lost), 0U) << "the file belongs to another program";
	EXPECT_NO_THROW(peer::connect(other.address()));
	serves("unix:" + kept, backend);
	client.send("still");
	EXPECT_EQ(served.receive(5), "still");
	served.close();
	EXPECT_EQ(client.receive_end(), ending::fin);
	client.close();
	await_end(relay);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
	EXPECT_EQ(inode_of(kept), 0U);
}

/* A new process that cannot serve changes nothing. */
TEST_F(Handover, ThatFailsChangesNothing)
{
	listener backend;
	file config("[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
		    "[groups.g]\nbackends = [\"" +
		    backend.address() + "\"]\n");
	relay_process relay({"--config", config.name()});
	const std::string address = relay.address();
	config.write("nothing = 1\n");
	relay.signal(SIGUSR2);
	relay.await_error("not handed over: the new process has ended");
	serves(address, backend);
	stop(relay);
}

/* A configuration that the new process cannot read until the test writes it. */
class slow_file
{
public:
	explicit slow_file(const std::string &path) : path_(path)
	{
		unlink(path.c_str());
		EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
	}
	slow_file(const slow_file &) = delete;
	slow_file &operator=(const slow_file &) = delete;
	~slow_file() { close(fd_); }

	void await_reader()
	{
		EXPECT_TRUE(eventually([&] {
			fd_ = open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
			return fd_ >= 0;
		}));
	}
	void write(const std::string &text)
	{
		EXPECT_EQ(::write(fd_, text.data(), text.size()),
			  static_cast<ssize_t>(text.size()));
		close(std::exchange(fd_, -1));
	}

private:
	const std::string path_;
	int fd_ = -1;
};

std::string configuration(const listener &backend)
{
	return "drain = 0\n[listeners.a]\naddress = '127.0.0.1:0'\ngroup = 'g'\n"
	       "[groups.g]\nbackends = ['" +
	       backend.address() + "']\n";
}

/* SIGTERM means that the whole relay should stop, not only the process that is being replaced. */
TEST_F(Handover, IsGivenUpToStop)
{
	listener backend;
	for (const bool supervised : {false, true}) {
		file config(configuration(backend));
		std::vector<std::string> arguments{"--config", config.name()};
		if (supervised)
			arguments.emplace_back("--supervise");
		relay_process relay(arguments);
		serves(relay.address(), backend);
		slow_file slow(config.name());
		relay.signal(SIGUSR2);
		slow.await_reader();
		relay.signal(SIGTERM);
		/* No process has its stderr open any more, so the new one has ended, too. */
		const ended over = relay.wait();
		EXPECT_EQ(over.status, 0);
		EXPECT_NE(over.errors.find("not handed over: the relay is to stop"),
			  over.errors.npos)
			<< over.errors;
		EXPECT_EQ(over.errors.find("relay_died"), over.errors.npos) << over.errors;
	}
}

/* The new process may have read the file before it was changed. */
TEST_F(Handover, PassesAReloadOn)
{
	listener backend;
	file config(configuration(backend));
	relay_process relay({"--config", config.name()});
	serves(relay.address(), backend);
	slow_file slow(config.name());
	relay.signal(SIGUSR2);
	slow.await_reader();
	relay.signal(SIGHUP);
	EXPECT_TRUE(eventually([&] { return !is_pending(relay.pid()); }));
	unlink(config.name().c_str());
	config.write(configuration(backend));
	slow.write(configuration(backend));
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	relay.await_error("notice reloaded ");
	await_end(relay);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
}

/* A child of the process; 0 if it has none. */
pid_t child_of(pid_t parent)
{
	for (const auto &each : std::filesystem::directory_iterator("/proc")) {
		std::ifstream status(each.path() / "status");
		for (std::string line; std::getline(status, line);)
			if (line == "PPid:\t" + std::to_string(parent))
				return std::atoi(each.path().filename().c_str());
	}
	return 0;
}

/* So may one that the new process gets itself, as when a signal goes to all processes of a
 * service. */
TEST_F(Handover, ASignalWhileTheNewProcessStartsIsAnsweredLater)
{
	listener backend;
	file config(configuration(backend));
	relay_process relay({"--config", config.name()});
	serves(relay.address(), backend);
	slow_file slow(config.name());
	relay.signal(SIGUSR2);
	slow.await_reader();
	const pid_t child = child_of(relay.pid());
	ASSERT_GT(child, 0);
	kill(child, SIGHUP);
	unlink(config.name().c_str());
	config.write(configuration(backend));
	slow.write(configuration(backend));
	const pid_t pid = successor(relay, 0);
	ASSERT_EQ(pid, child);
	relay.await_error("notice reloaded ");
	await_end(relay);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
}

/* It may even come before the program has begun, and end it. */
TEST_F(Handover, ANewProcessThatASignalEndsIsReplaced)
{
	listener backend;
	const folder here;
	const std::string file = here / "relay", moved = here / "moved", once = here / "once";
	std::filesystem::copy_file(SENNIT_RELAY_PROGRAM, file);
	program = file.c_str();
	relay_process relay({"127.0.0.1:0", backend.address()});
	program = nullptr;
	serves(relay.address(), backend);
	std::filesystem::rename(file, moved);
	/* The second time there is the folder, and the signal is not sent. */
	std::ofstream(file) << "#!/bin/sh\nmkdir '" << once << "' && kill -s HUP $$\nexec '"
			    << moved << "' \"$@\"\n";
	ASSERT_EQ(chmod(file.c_str(), 0700), 0);
	relay.signal(SIGUSR2);
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	EXPECT_TRUE(std::filesystem::exists(once));
	serves(relay.address(), backend);
	await_end(relay);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
}

/* The same when the relay is started, with and without a first process. */
TEST_F(Handover, ASignalAtTheStartIsAnsweredLater)
{
	listener backend;
	for (const bool supervised : {false, true}) {
		file config(configuration(backend));
		slow_file slow(config.name());
		std::vector<std::string> arguments{"--config", config.name()};
		if (supervised)
			arguments.emplace_back("--supervise");
		relay_process relay(arguments);
		slow.await_reader();
		relay.signal(SIGHUP);
		unlink(config.name().c_str());
		config.write(configuration(backend));
		slow.write(configuration(backend));
		relay.await_error("notice reloaded ");
		stop(relay);
	}
}

/* Whoever sends the signal may not know of the new process yet. */
TEST_F(Handover, PassesALateReloadOn)
{
	listener backend;
	file config(configuration(backend));
	relay_process relay({"--config", config.name()});
	auto client = peer::connect(relay.address());
	auto served = backend.accept();
	relay.signal(SIGUSR2);
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	relay.await_error("notice draining ");
	relay.signal(SIGHUP);
	relay.await_error("notice reloaded ");
	client.close();
	served.close();
	await_end(relay);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
}

/* Later the sender knows of the new process, and a second reload each time would be a waste. */
TEST_F(Handover, PassesNoReloadOnForever)
{
	listener backend;
	const folder here;
	const std::string log = here / "log";
	file config("access_log = '" + log + "'\n" + configuration(backend));
	relay_process relay({"--config", config.name()});
	auto client = peer::connect(relay.address());
	auto served = backend.accept();
	relay.signal(SIGUSR2);
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	relay.await_error("notice draining ");
	const auto said = [&](std::string_view what) { return count_of(what, relay.errors()); };
	/* Whether the new process has nothing to do when the old one has answered a SIGHUP. */
	const auto is_ignored = [&] {
		const auto reloads = said("notice reloaded ");
		std::filesystem::rename(log, log + ".1");
		relay.signal(SIGHUP);
		/* It passes the signal on before it opens the log. */
		EXPECT_TRUE(eventually([&] { return has_open(relay.pid(), log); }));
		const auto counters = said("info counters ");
		kill(pid, SIGUSR1);
		EXPECT_TRUE(eventually([&] { return said("info counters ") > counters; }));
		return said("notice reloaded ") == reloads;
	};
	/* Three times, because a thread may answer the second signal before another the first. */
	EXPECT_TRUE(eventually([&] {
		std::this_thread::sleep_for(100ms);
		return is_ignored() && is_ignored() && is_ignored();
	}));
	client.close();
	served.close();
	await_end(relay);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
}

/* Also when the old process has nothing left to do but to write the last lines of its log. */
TEST_F(Handover, PassesALateReloadOnUntilTheEnd)
{
	listener backend;
	/* Again if the test was delayed for so long that the old process had ended. */
	EXPECT_TRUE(eventually([&] {
		const folder here;
		const std::string log = here / "log";
		EXPECT_EQ(mkfifo(log.c_str(), 0600), 0);
		/* A log that nobody reads has a second for its lines. */
		const int pipe = open(log.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
		while (write(pipe, "f", 1) == 1)
			continue;
		file config("access_log = '" + log + "'\nhandover_drain = 0\n" +
			    configuration(backend));
		relay_process relay({"--config", config.name()});
		auto client = peer::connect(relay.address());
		auto served = backend.accept();
		relay.signal(SIGUSR2);
		const pid_t pid = successor(relay, 0);
		EXPECT_GT(pid, 0);
		relay.await_error("warning cutting ");
		relay.signal(SIGHUP);
		const bool is_in_time = !has_ended(relay);
		await_end(relay);
		if (is_in_time)
			relay.await_error("notice reloaded ");
		close(pipe);
		end(pid);
		EXPECT_EQ(relay.wait().status, 0);
		return is_in_time;
	}));
}

/* Waits until the other end of a Unix socket has read everything. */
void await_read(const peer &client)
{
	EXPECT_TRUE(eventually([&] {
		int unread = -1;
		return ioctl(client.fd(), TIOCOUTQ, &unread) == 0 && unread == 0;
	}));
}

/* Clients of the control server that wait for their turn during the handover get an answer, which
 * says that another process has taken over. One that has asked nothing is closed, so that it
 * connects to the new process. */
TEST_F(Handover, AnswersWhoeverWaitsForIt)
{
	listener backend;
	const folder here;
	const std::string control = "unix:" + here / "control";
	const std::string text = "control = '" + control + "'\n" + configuration(backend);
	file config(text);
	relay_process relay({"--config", config.name()});
	serves(relay.address(), backend);
	auto idle = peer::sending("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", control);
	EXPECT_EQ(idle.receive(15), "HTTP/1.1 200 OK");
	/* The old process does not end before this connection does. */
	auto connected = peer::connect(relay.address());
	auto served = backend.accept();
	slow_file slow(config.name());
	relay.signal(SIGUSR2);
	slow.await_reader();
	/* They have the turn one after the other, so not all are answered when the servers end. */
	std::vector<peer> clients;
	for (int i = 0; i < 50; i++) {
		clients.push_back(
			peer::sending("POST /reload HTTP/1.1\r\nHost: localhost\r\n\r\n", control));
		await_read(clients.back());
	}
	slow.write(text);
	const pid_t pid = successor(relay, 0);
	ASSERT_GT(pid, 0);
	for (auto &each : clients)
		EXPECT_EQ(each.receive_rest().first.substr(0, 12), "HTTP/1.1 503");
	idle.receive_rest();
	connected.close();
	served.close();
	await_end(relay);
	end(pid);
	EXPECT_EQ(relay.wait().status, 0);
}

TEST_F(Handover, FailsNoClientUnderTraffic)
{
	const char *const asked = std::getenv("SENNIT_RELOADS");
	const std::size_t times = asked ? static_cast<std::size_t>(std::atoi(asked)) : 3;
	listener backend;
	std::atomic<bool> over{false}; /* clients end first, so that each gets its answer */
	std::atomic<bool> done{false};
	std::atomic<unsigned> served{0};
	std::atomic<unsigned> failed{0};
	std::thread echoing([&] {
		while (!done) {
			try {
				auto client = backend.accept();
				client.send(client.receive(5));
			} catch (const std::exception &) {
				/* The last connection only ends this loop. */
			}
		}
	});
	relay_process relay({"--drain", "40s", "127.0.0.1:0", backend.address()});
	const std::string address = relay.address();
	std::vector<std::thread> clients;
	for (int i = 0; i < 4; i++)
		clients.emplace_back([&] {
			while (!over) {
				try {
					auto client = peer::sending("hello", address);
					if (client.receive(5) != "hello")
						failed++;
					served++;
				} catch (const std::exception &error) {
					ADD_FAILURE() << error.what();
					failed++;
				}
			}
		});
	pid_t now = relay.pid();
	for (std::size_t i = 0; i < times; i++) {
		const unsigned before = served;
		kill(now, SIGUSR2);
		const pid_t next = successor(relay, i);
		EXPECT_GT(next, 0);
		if (next <= 0)
			break;
		EXPECT_TRUE(eventually([&] { return served > before + 10 || failed > 0; }));
		/* harness::relay_process waits for the first process; this one waits for the
		 * others. */
		int status = 0;
		const pid_t old = now;
		if (old != relay.pid()) {
			EXPECT_TRUE(
				eventually([&] { return waitpid(old, &status, WNOHANG) == old; }));
			EXPECT_EQ(status, 0);
		}
		now = next;
	}
	over = true;
	for (auto &each : clients)
		each.join();
	EXPECT_EQ(failed, 0U);
	std::printf("%zu handovers, %u connections\n", times, served.load());
	if (now != relay.pid())
		end(now);
	done = true;
	peer::connect(backend.address()).close();
	echoing.join();
	EXPECT_EQ(relay.wait().status, 0);
}

} // namespace
