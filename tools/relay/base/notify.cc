/* SPDX-License-Identifier: MIT */
#include "base/notify.hpp"

#include "base/sleep.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace relay
{
namespace
{

constexpr std::chrono::milliseconds pause{20};

struct all_messages {
	std::mutex lock; /* guards all */
	std::deque<std::string> waiting;
	bool are_being_sent = false; /* by a task, which alone takes messages out */
};

/* Never destroyed, because a task may be left when the process ends. */
all_messages &messages()
{
	static auto *const all = new all_messages;
	return *all;
}

/* Whether a later attempt may succeed: the manager is busy, or the system lacks something. */
bool is_for_now(int error) noexcept
{
	return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == EMFILE ||
	       error == ENFILE;
}

/* Returns why the message cannot be sent for now; 0: it was sent, or never can be. */
int send_now(std::string_view state) noexcept
{
	const char *const where = std::getenv("NOTIFY_SOCKET");
	sockaddr_un to{};
	to.sun_family = AF_UNIX;
	const std::size_t length = where ? std::strlen(where) : 0;
	if (length < 2 || length >= sizeof to.sun_path || (*where != '/' && *where != '@'))
		return 0;
	std::memcpy(to.sun_path, where, length);
	if (*where == '@')
		to.sun_path[0] = '\0';
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return is_for_now(errno) ? errno : 0;
	const ssize_t n = sendto(fd, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
				 reinterpret_cast<const sockaddr *>(&to),
				 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
	const int error = n < 0 && is_for_now(errno) ? errno : 0;
	close(fd);
	return error;
}

void tell_lost(std::string_view state, int error) noexcept
{
	if (notify_lost)
		notify_lost(state.substr(0, state.find('\n')), error);
}

/* Tries until the patience is over. Returns why the last attempt failed; 0: none did. */
int send_soon(const std::string &state) noexcept
{
	const auto until = sn::after(notify_patience);
	for (;; sleep_fully(pause)) {
		const int error = send_now(state);
		if (!error || sn::now() >= until)
			return error;
	}
}

/* What the task does. */
int send_all(void * /*unused*/) noexcept
{
	all_messages &all = messages();
	std::unique_lock guard(all.lock);
	while (!all.waiting.empty()) {
		/* Others only add at the end, so the first stays in its place. */
		const std::string &first = all.waiting.front();
		guard.unlock();
		const int error = send_soon(first);
		if (error)
			tell_lost(first, error);
		guard.lock();
		if (error)
			all.waiting.clear();
		else
			all.waiting.pop_front();
	}
	all.are_being_sent = false;
	return 0;
}

/* Throws if there is no memory. */
void notify(std::string state)
{
	all_messages &all = messages();
	std::unique_lock guard(all.lock);
	if (!all.are_being_sent && !send_now(state))
		return;
	all.waiting.push_back(std::move(state));
	if (std::exchange(all.are_being_sent, true))
		return;
	sn_task_attr attr{};
	attr.name = "notify";
	const int error = -sn_spawn(nullptr, send_all, nullptr, &attr);
	if (!error)
		return;
	const std::string lost = std::move(all.waiting.front());
	all.waiting.clear();
	all.are_being_sent = false;
	guard.unlock();
	tell_lost(lost, error);
}

void try_to_notify(const char *state) noexcept
try {
	notify(state);
} catch (const std::exception &) {
	tell_lost(state, ENOMEM);
}

} // namespace

void (*notify_lost)(std::string_view first, int error) noexcept = nullptr;

void notify_ready() noexcept
{
	try_to_notify("READY=1");
}

void notify_reloading() noexcept
try {
	/* From this time the manager knows that an earlier READY=1 does not end this reload. */
	timespec now{};
	clock_gettime(CLOCK_MONOTONIC, &now);
	notify("RELOADING=1\nMONOTONIC_USEC=" +
	       std::to_string(now.tv_sec * 1000000LL + now.tv_nsec / 1000));
} catch (const std::exception &) {
	tell_lost("RELOADING=1", ENOMEM);
}

void notify_stopping() noexcept
{
	try_to_notify("STOPPING=1");
}

void notify_main_pid(long pid) noexcept
try {
	notify("MAINPID=" + std::to_string(pid));
} catch (const std::exception &) {
	tell_lost("MAINPID", ENOMEM);
}

void notify_status(std::string_view text) noexcept
try {
	std::string line = "STATUS=";
	for (const char c : text)
		line += c == '\n' ? ' ' : c;
	notify(std::move(line));
} catch (const std::exception &) {
	/* It is only for people. */
}

bool is_notified() noexcept
try {
	all_messages &all = messages();
	const std::lock_guard guard(all.lock);
	return !all.are_being_sent;
} catch (const std::exception &) {
	return true; /* no memory, so there are no messages */
}

} // namespace relay
