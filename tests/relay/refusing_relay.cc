// SPDX-License-Identifier: MIT
/*
 * The relay of refusal_test.cc. While the file named by RELAY_TEST_REFUSES says so, it lacks
 * something: "thread" and "memory": a thread for a call that may block, or memory for one;
 * "timers": memory for timers; "ports": a port to send datagrams from; "queue": room in the queue
 * of the device, for datagrams of checks; "buffers": memory for these; "routes": a route for
 * datagrams of sessions; "prohibited": one that does not prohibit them; "new": any memory of C++;
 * "large": that of at least a mebibyte; or the task with that name. Each refusal adds a byte to the
 * file named by RELAY_TEST_REFUSED, except for threads, their memory, and tasks.
 *
 * A task is refused only once there is no file named by RELAY_TEST_HOLDS; until then each look,
 * after one millisecond and more, adds a byte, too. With a '+' in front of its name, the first such
 * task is not refused, and begins only once there is no such file; the others are refused. With
 * "end" the process ends only then, after main().
 */
#include "base/in_time.hpp"
#include "handover/inherited.hpp"

#include <sennit/sennit.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <netinet/in.h>
#include <new>
#include <string_view>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace
{

/* sign: what the file has in front. Allocates nothing, because allocations ask. */
bool refuses(std::string_view what, std::string_view sign = "")
{
	static const char *const name = std::getenv("RELAY_TEST_REFUSES");
	const int before = errno;
	std::array<char, 16> text{};
	ssize_t n = 0;
	if (name)
		if (const int fd = open(name, O_RDONLY | O_CLOEXEC); fd >= 0) {
			n = read(fd, text.data(), text.size());
			close(fd);
		}
	errno = before;
	const std::string_view all(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
	return all.starts_with(sign) && all.size() > sign.size() && all.substr(sign.size()) == what;
}

void note()
{
	static const char *const name = std::getenv("RELAY_TEST_REFUSED");
	const int before = errno;
	if (name)
		if (const int fd = open(name, O_WRONLY | O_APPEND | O_CLOEXEC); fd >= 0) {
			static_cast<void>(!write(fd, ".", 1));
			close(fd);
		}
	errno = before;
}

bool refuses_and_notes(std::string_view what)
{
	if (!refuses(what))
		return false;
	note();
	return true;
}

void refuse()
{
	if (refuses("thread"))
		throw std::system_error(
			std::make_error_code(std::errc::resource_unavailable_try_again));
	if (refuses("memory"))
		throw std::bad_alloc();
}

void wait_while_held()
{
	static const char *const holds = std::getenv("RELAY_TEST_HOLDS");
	while (holds && access(holds, F_OK) == 0) {
		note();
		if (sn_sleep(1'000'000) == -ENOTSUP) /* the runtime has ended */
			usleep(1'000);
	}
}

struct held_task {
	static int run(void *arg)
	{
		const std::unique_ptr<held_task> its(static_cast<held_task *>(arg));
		wait_while_held();
		return its->fn(its->arg);
	}

	sn_fn *fn;
	void *arg;
};

/* The test may be killed while the relay is held. A process that was handed over to may outlive its
 * parent, but not by much. */
void end_with_the_test()
{
	if (!std::getenv(relay::handover_variable))
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(600);
}

[[maybe_unused]] const bool is_set = [] {
	end_with_the_test();
	relay::refuse_call = refuse;
	return std::atexit([] {
		       if (refuses("end"))
			       wait_while_held();
	       }) == 0;
}();

} // namespace

extern "C" {

/* Names of the linker, and those of timer.h and task.h. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
int __real_sn_timer_start(void *self, void *timer, std::int64_t when);
int __real_sn_timer_advance(void *self, void *timer, std::int64_t when, void *by);
int __real_sn_spawn(sn_task **task, sn_fn *fn, void *arg, const struct sn_task_attr *attr);
int __real_sn_udp_connect(void **udp, const char *address, const void *options,
			  std::int64_t deadline);
ssize_t __real_sn_udp_send(void *udp, const void *bytes, std::size_t size, const void *peer);
ssize_t __wrap_sn_udp_send(void *udp, const void *bytes, std::size_t size, const void *peer);
ssize_t __real_sendmsg(int fd, const msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const msghdr *message, int flags);
int __wrap_sn_timer_start(void *self, void *timer, std::int64_t when);
int __wrap_sn_timer_advance(void *self, void *timer, std::int64_t when, void *by);
int __wrap_sn_spawn(sn_task **task, sn_fn *fn, void *arg, const struct sn_task_attr *attr);
int __wrap_sn_udp_connect(void **udp, const char *address, const void *options,
			  std::int64_t deadline);

int __wrap_sn_spawn(sn_task **task, sn_fn *fn, void *arg, const struct sn_task_attr *attr)
{
	static std::atomic<bool> is_first{true};
	if (attr && attr->name && refuses(attr->name)) {
		wait_while_held();
		return -ENOMEM;
	}
	if (!attr || !attr->name || !refuses(attr->name, "+"))
		return __real_sn_spawn(task, fn, arg, attr);
	if (!is_first.exchange(false))
		return -ENOMEM;
	auto *const of = new held_task{fn, arg};
	const int err = __real_sn_spawn(task, held_task::run, of, attr);
	if (err < 0)
		delete of;
	return err;
}

int __wrap_sn_udp_connect(void **udp, const char *address, const void *options,
			  std::int64_t deadline)
{
	return refuses_and_notes("ports") ? -EAGAIN
					  : __real_sn_udp_connect(udp, address, options, deadline);
}

ssize_t __wrap_sn_udp_send(void *udp, const void *bytes, std::size_t size, const void *peer)
{
	if (refuses_and_notes("buffers"))
		return -ENOBUFS;
	if (!refuses_and_notes("queue"))
		return __real_sn_udp_send(udp, bytes, size, peer);
	/* The system tells only a socket that keeps errors. */
	int is_told = 0;
	socklen_t length = sizeof is_told;
	getsockopt(sn_udp_fd(static_cast<sn_udp *>(udp)), IPPROTO_IP, IP_RECVERR, &is_told,
		   &length);
	return is_told ? -ENOBUFS : static_cast<ssize_t>(size);
}

ssize_t __wrap_sendmsg(int fd, const msghdr *message, int flags)
{
	int type = 0;
	socklen_t size = sizeof type;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM)
		for (const auto &[what, error] :
		     {std::pair("routes", ENETUNREACH), std::pair("prohibited", EACCES)})
			if (refuses_and_notes(what)) {
				errno = error;
				return -1;
			}
	return __real_sendmsg(fd, message, flags);
}

int __wrap_sn_timer_start(void *self, void *timer, std::int64_t when)
{
	return refuses_and_notes("timers") ? -ENOMEM : __real_sn_timer_start(self, timer, when);
}

int __wrap_sn_timer_advance(void *self, void *timer, std::int64_t when, void *by)
{
	return refuses_and_notes("timers") ? -ENOMEM
					   : __real_sn_timer_advance(self, timer, when, by);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
}

/* The sanitizers have operators of their own. */
#ifndef RELAY_IS_SANITIZED
void *operator new(std::size_t size)
{
	constexpr std::size_t large = 1 << 20;
	if (!refuses_and_notes("new") && !(size >= large && refuses_and_notes("large")))
		if (void *const memory = std::malloc(size ? size : 1))
			return memory;
	throw std::bad_alloc();
}

void operator delete(void *memory) noexcept
{
	std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept
{
	std::free(memory);
}
#endif
