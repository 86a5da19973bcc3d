/* SPDX-License-Identifier: MIT */
#include "handover/supervisor.hpp"

#include "handover/inherited.hpp"
#include "stats/events.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <iterator>
#include <linux/sockios.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace relay
{
namespace
{

/* The signals that the first process passes on. All others have their usual effect on it. */
constexpr int to_stop[] = {SIGTERM, SIGINT};
constexpr int to_all[] = {SIGTERM, SIGINT, SIGHUP};
constexpr int to_newest[] = {SIGUSR1, SIGUSR2};

/* A process that must end is sent SIGTERM at this interval, and the second one makes it cut its
 * connections. After so many it is killed; cutting takes a second at most (server.cc). */
constexpr int pause_ms = 100;
constexpr int most_times = 50;

[[noreturn]] void fail(const char *what)
{
	throw std::system_error(errno, std::generic_category(), what);
}

sigset_t passed_on()
{
	sigset_t set;
	sigemptyset(&set);
	for (const int each : to_all)
		sigaddset(&set, each);
	for (const int each : to_newest)
		sigaddset(&set, each);
	sigaddset(&set, SIGCHLD);
	return set;
}

int number_in(const char *variable)
{
	const char *const text = std::getenv(variable);
	int number = -1;
	if (text)
		std::from_chars(text, text + std::strlen(text), number);
	return number;
}

void close_if_open(int &fd)
{
	if (fd >= 0)
		close(std::exchange(fd, -1));
}

/* A pidfd; -1 if the system has none. */
int open_process(pid_t pid)
{
#ifdef SYS_pidfd_open
	return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
#else
	static_cast<void>(pid);
	return -1;
#endif
}

class first_process
{
public:
	first_process(int signals, int reports, pid_t relay) : signals_(signals), reports_(reports)
	{
		follow(relay);
	}

	/* Runs until all processes have ended. Returns the status to exit with. */
	int run()
	{
		while (!processes_.empty()) {
			wait();
			reap();
			if (is_cutting_)
				cut_the_rest();
		}
		return status_;
	}

private:
	/* Waits until something has happened. */
	void wait()
	{
		pollfd in[] = {
			{signals_, POLLIN, 0}, {reports_, POLLIN, 0}, {newest_end_, POLLIN, 0}};
		poll(in, std::size(in), is_cutting_ ? pause_ms : -1);
		const bool is_newer = take_reports();
		take_signals();
		/* The newest process may have handed over before it ended, or been asked to end
		 * together with this one. */
		if (in[2].revents && !is_newer)
			newest_has_ended();
	}

	void follow(pid_t pid)
	{
		processes_.push_back(pid);
		newest_ = pid;
		close_if_open(newest_end_);
		newest_end_ = open_process(pid);
		if (is_stopping_) /* the signal came before the report */
			kill(pid, SIGTERM);
	}

	/* Returns whether there is a newer process now. */
	bool take_reports()
	{
		bool is_newer = false;
		pid_t pid = -1;
		while (reports_ >= 0) {
			const auto n = recv(reports_, &pid, sizeof pid, MSG_DONTWAIT);
			if (n == static_cast<ssize_t>(sizeof pid) && pid > 0) {
				follow(pid);
				is_newer = true;
			} else if (n == 0) { /* no process has the other end any more */
				close_if_open(reports_);
			} else if (n < 0 && errno != EINTR) {
				break;
			}
		}
		return is_newer;
	}

	void take_signals()
	{
		signalfd_siginfo info;
		while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
			pass_on(static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL);
	}

	void pass_on(int signum, bool is_known)
	{
		if (std::ranges::count(to_stop, signum) > 0)
			is_stopping_ = true;
		if (is_known || signum == SIGCHLD)
			return;
		const bool is_for_all = std::ranges::count(to_all, signum) > 0;
		/* Processes that have ended but are not reaped yet still have their ids. */
		for (const pid_t pid : processes_)
			if (is_for_all || pid == newest_)
				kill(pid, signum);
	}

	void reap()
	{
		for (;;) {
			siginfo_t info{};
			if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
			    info.si_pid == 0)
				return;
			/* A report of this process, or of its parent, may have arrived before
			 * its end, and so may a signal. */
			take_reports();
			take_signals();
			int status = 0;
			if (waitpid(info.si_pid, &status, 0) < 0)
				return;
			ended(info.si_pid, status);
		}
	}

	void ended(pid_t pid, int status)
	{
		std::erase(processes_, pid);
		if (pid != newest_)
			return;
		status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (WIFSIGNALED(status))
			emit(event_kind::relay_died,
			     std::string("the relay was ended by a signal: ") +
				     strsignal(WTERMSIG(status)),
			     {{"pid", static_cast<std::uint64_t>(pid)},
			      {"signal", static_cast<std::uint64_t>(WTERMSIG(status))}});
		newest_has_ended();
	}

	/* The newest process may not be this process's child yet; then its status comes later. */
	void newest_has_ended()
	{
		close_if_open(newest_end_);
		/* All have been asked to stop, and may take their time. */
		if (!is_stopping_)
			is_cutting_ = true;
	}

	void cut_the_rest()
	{
		times_++;
		for (const pid_t pid : processes_)
			kill(pid, times_ > most_times ? SIGKILL : SIGTERM);
	}

	int signals_;
	int reports_;
	std::vector<pid_t> processes_; /* not reaped yet; the newest is the last */
	pid_t newest_ = -1;
	int newest_end_ = -1; /* its pidfd; -1: there is none, or it has ended */
	int status_ = EXIT_FAILURE;
	bool is_stopping_ = false; /* SIGTERM or SIGINT has come */
	bool is_cutting_ = false;  /* the newest has ended without having been asked to */
	int times_ = 0;            /* how often the others were asked to end */
};

/* Sockets from systemd are the relay's: while this process had them open too, clients of a listener
 * that the relay has closed would wait instead of being refused. */
void close_listeners()
{
	if (number_in("LISTEN_PID") != getpid())
		return;
	const int count = number_in("LISTEN_FDS");
	for (int fd = 3; fd < 3 + std::min(count, 4096); fd++) {
		int listens = 0, type = 0;
		socklen_t size = sizeof listens;
		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 &&
		    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
		    (listens || type == SOCK_DGRAM))
			close(fd);
	}
}

/* Gives the child the state that the relay expects when it is started directly. */
void become_the_relay(pid_t former, const sigset_t &mask)
{
	if (number_in("LISTEN_PID") == former)
		setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
	sigprocmask(SIG_SETMASK, &mask, nullptr);
}

} // namespace

std::optional<int> supervise(bool asked, int &link)
{
	const int inherited = number_in(supervisor_variable);
	unsetenv(supervisor_variable);
	const bool takes_over = std::getenv(handover_variable) != nullptr;
	link = takes_over ? inherited : -1;
	if (link >= 0)
		fcntl(link, F_SETFD, FD_CLOEXEC);
	if (takes_over || (!asked && getpid() != 1))
		return std::nullopt;

	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		fail("socketpair");
	const sigset_t set = passed_on();
	sigset_t before;
	sigprocmask(SIG_BLOCK, &set, &before);
	const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		fail("signalfd");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		fail("prctl");
	const pid_t former = getpid();
	const pid_t relay = fork();
	if (relay < 0)
		fail("fork");
	if (relay == 0) {
		close(signals);
		close(ends[0]);
		link = ends[1];
		become_the_relay(former, before);
		return std::nullopt;
	}
	close(ends[1]);
	close_listeners();
	return first_process(signals, ends[0], relay).run();
}

void report_newest(int link, pid_t pid) noexcept
{
	if (link >= 0)
		static_cast<void>(send(link, &pid, sizeof pid, MSG_NOSIGNAL) < 0);
}

bool is_report_read(int link) noexcept
{
	int unread = 0;
	return link < 0 || ioctl(link, SIOCOUTQ, &unread) < 0 || unread == 0;
}

first_process_watch::first_process_watch(int link) : link_(link)
{
	if (link_ >= 0)
		running_ = sn::spawn([this] { run(); }, {.name = "first process"});
}

first_process_watch::~first_process_watch()
{
	end_.release();
	if (link_ >= 0)
		running_.join();
}

void first_process_watch::run() noexcept
try {
	sn::scope waiting;
	/* The first process never sends anything, so only its end makes the socket readable. */
	waiting.go([this] {
		if (sn::wait_fd(link_, POLLIN))
			kill(getpid(), SIGTERM);
	});
	end_.acquire();
	/* The scope's end cancels the wait. */
} catch (const std::exception &) {
	/* Without memory for the watch, the end of the first process goes unnoticed. */
}

} // namespace relay
