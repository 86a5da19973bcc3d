// SPDX-License-Identifier: MIT
//
// Hooked calls neither allocate memory nor look symbols up on their way, unless they park: an
// allocator that makes such a call, or takes a lock, would call itself. A call that parks looks no
// symbols up either, but the runtime may allocate what it needs for the wait.
//
// The hooks, the runtime and this program are linked with --wrap for the functions below. What the
// C library calls itself is not seen.
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/select.h>

#include "hooks/hooks.h"

namespace
{

// Of this thread, because others may run something else.
thread_local bool counts;
std::atomic<int> allocations, lookups;

// Not inlined: see errno in call.h.
__attribute__((noinline)) void count(std::atomic<int> &calls)
{
	__asm__ volatile("" : : : "memory");
	if (counts)
		calls++;
}

__attribute__((noinline)) void set_counts(bool on)
{
	__asm__ volatile("" : : : "memory");
	counts = on;
}

} // namespace

extern "C" {
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_dlsym(void *handle, const char *name);
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__real_dlsym(void *handle, const char *name);

void *__wrap_malloc(size_t size)
{
	count(allocations);
	return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	count(allocations);
	return __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	count(allocations);
	return __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	count(allocations);
	return __real_aligned_alloc(alignment, size);
}

void *__wrap_dlsym(void *handle, const char *name)
{
	count(lookups);
	return __real_dlsym(handle, name);
}
}

namespace
{

using namespace test;

enum class How { Passed, Parks };

void expect_none(const std::string &name, How how, const std::function<int64_t()> &call)
{
	const int allocated = allocations;

	set_counts(true);
	const int64_t result = outcome(call());
	set_counts(false);
	EXPECT_LE(0, result) << name;
	EXPECT_EQ(0, lookups) << name;
	if (how == How::Passed) {
		EXPECT_EQ(allocated, allocations) << name;
	}
}

class Bytes
{
public:
	// Sends a byte after some time, again and again until it ends.
	explicit Bytes(int to)
	    : writer_([this, to] {
		      while (!done_) {
			      usleep(2000);
			      EXPECT_EQ(1, write(to, "x", 1));
		      }
	      })
	{
	}
	~Bytes()
	{
		done_ = true;
		writer_.join();
	}
	Bytes(const Bytes &) = delete;
	Bytes &operator=(const Bytes &) = delete;

private:
	std::atomic<bool> done_{false};
	std::thread writer_;
};

TASK_TEST(Allocation, IsForWaitsOnly, 2)
{
	SocketPair pair;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

	hooked([&] {
		const Bytes comes(pair.fd[1]);
		const TcpListener listener;
		struct pollfd one = {pair.fd[0], POLLIN, 0};
		struct timeval time = {0, 1000};
		char byte;

		expect_none("lock", How::Passed, [&] { return pthread_mutex_lock(&mutex); });
		expect_none("recv", How::Passed, [&] { return recv(pair.fd[0], &byte, 1, 0); });
		expect_none("poll", How::Passed, [&] { return poll(&one, 1, -1); });
		expect_none("usleep", How::Passed, [&] { return usleep(1000); });
		expect_none("unlock", How::Passed, [&] { return pthread_mutex_unlock(&mutex); });
		expect_none("wrlock", How::Passed, [&] { return pthread_rwlock_wrlock(&lock); });
		expect_none("read", How::Passed, [&] { return read(pair.fd[0], &byte, 1); });
		expect_none("unlock", How::Passed, [&] { return pthread_rwlock_unlock(&lock); });
		for (int i = 0; i < 10; i++) {
			const int to = test::tcp_socket();
			int from = -1;

			expect_none("recv", How::Parks,
				    [&] { return recv(pair.fd[0], &byte, 1, 0); });
			expect_none("poll", How::Parks, [&] { return poll(&one, 1, -1); });
			// There is a byte now.
			expect_none("read", How::Passed,
				    [&] { return read(pair.fd[0], &byte, 1); });
			expect_none("select", How::Parks,
				    [&] { return select(0, nullptr, nullptr, nullptr, &time); });
			expect_none("usleep", How::Parks, [&] { return usleep(1000); });
			expect_none("connect", How::Parks, [&] { return listener.connect_to(to); });
			expect_none("accept", How::Passed,
				    [&] { return from = accept(listener.fd, nullptr, nullptr); });
			expect_none("write", How::Passed, [&] { return write(to, "x", 1); });
			expect_none("close", How::Passed, [&] { return close(from); });
			close(to);
		}
		EXPECT_LT(0u, hooks().parked);
	}).join();
}

// Waits that must allocate, so that a count of none above means something.
TASK_TEST(Allocation, IsSeenInWaitsThatNeedIt, 2)
{
	hooked([&] {
		struct pollfd many[100];
		SocketPair pair;
		const int before = allocations;

		for (auto &one : many)
			one = {pair.fd[0], POLLIN, 0};
		set_counts(true);
		const int64_t result = outcome(poll(many, 100, 1));
		set_counts(false);
		EXPECT_EQ(0, result);
		EXPECT_LT(before, allocations);
	}).join();
}

} // namespace
