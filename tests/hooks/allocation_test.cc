// SPDX-License-Identifier: MIT
//
// Hooked calls neither call an allocator nor look symbols up on their way, whether they park or
// not: an allocator that makes such a call, or takes a lock, would call itself. Only a lookup of a
// name does, because its result has to be allocated anyway.
//
// The hooks, the runtime and this program are linked with --wrap for the functions below. What the
// C library calls itself is not seen.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <netdb.h>
#include <poll.h>
#include <sys/select.h>

#include "hooks/hooks.h"

namespace
{

// Of this thread, because others may run something else.
thread_local bool counts;
std::atomic<int> allocations, lookups;

// Not inlined: see errno in call.h. While the task is parked, its thread may start another thread,
// which allocates. That is outside of all tasks.
__attribute__((noinline)) void count(std::atomic<int> &calls)
{
	__asm__ volatile("" : : : "memory");
	if (counts && sn_self())
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

void expect_none(const std::string &name, const std::function<int64_t()> &call)
{
	const int allocated = allocations;

	set_counts(true);
	const int64_t result = outcome(call());
	set_counts(false);
	EXPECT_LE(0, result) << name;
	EXPECT_EQ(0, lookups) << name;
	EXPECT_EQ(allocated, allocations) << name;
}

// The same of a call that parks.
void expect_none_parked(const std::string &name, const std::function<int64_t()> &call)
{
	const uint64_t parked = hooks().parked;

	expect_none(name, call);
	EXPECT_LT(parked, hooks().parked) << name;
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

TASK_TEST(Allocation, IsForNoCall, 2)
{
	SocketPair pair;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

	hooked([&] {
		const Bytes comes(pair.fd[1]);
		const TcpListener listener;
		struct pollfd one = {pair.fd[0], POLLIN, 0};
		char byte;

		expect_none("lock", [&] { return pthread_mutex_lock(&mutex); });
		expect_none("recv", [&] { return recv(pair.fd[0], &byte, 1, 0); });
		expect_none("poll", [&] { return poll(&one, 1, -1); });
		expect_none("usleep", [&] { return usleep(1000); });
		expect_none("unlock", [&] { return pthread_mutex_unlock(&mutex); });
		expect_none("wrlock", [&] { return pthread_rwlock_wrlock(&lock); });
		expect_none("read", [&] { return read(pair.fd[0], &byte, 1); });
		expect_none("unlock", [&] { return pthread_rwlock_unlock(&lock); });
		for (int i = 0; i < 10; i++) {
			const int to = test::tcp_socket();
			int from = -1;

			expect_none("recv", [&] { return recv(pair.fd[0], &byte, 1, 0); });
			expect_none("poll", [&] { return poll(&one, 1, -1); });
			// There is a byte now.
			expect_none("read", [&] { return read(pair.fd[0], &byte, 1); });
			expect_none_parked("select", [&] {
				struct timeval time = {0, 1000};

				return select(0, nullptr, nullptr, nullptr, &time);
			});
			expect_none_parked("usleep", [&] { return usleep(1000); });
			expect_none("connect", [&] { return listener.connect_to(to); });
			expect_none("accept",
				    [&] { return from = accept(listener.fd, nullptr, nullptr); });
			expect_none("write", [&] { return write(to, "x", 1); });
			expect_none("close", [&] { return close(from); });
			close(to);
		}
		EXPECT_LT(0u, hooks().parked);
	}).join();
}

// Waits for which there is no room yet: for a large number of a descriptor, with more timers than
// before, and for many descriptors.
TASK_TEST(Allocation, IsForNoWaitThatNeedsMore, 2)
{
	const int number = 1000, most = 1000; // the usual limit of descriptors is 1,024
	std::vector<Task> sleepers;
	sn_waitgroup begin = SN_WAITGROUP_INIT;

	hooked([&] {
		struct pollfd many[100];
		SocketPair pair;
		char byte;

		ASSERT_EQ(number, dup2(pair.fd[0], number));
		for (auto &one : many)
			one = {pair.fd[0], POLLIN, 0};
		expect_none_parked("poll of 100", [&] { return poll(many, 100, 1); });
		expect_none_parked("poll of 20", [&] { return poll(many, 20, 1); });
		{
			const Bytes comes(pair.fd[1]);

			expect_none("recv", [&] { return recv(number, &byte, 1, 0); });
		}
		EXPECT_EQ(0, close(number));
	}).join();
	// Together they need more timers than there is room for at first.
	sn_waitgroup_add(&begin, 1);
	for (int i = 0; i < most; i++)
		sleepers.push_back(hooked([&] {
			EXPECT_EQ(0, sn_waitgroup_wait(&begin));
			expect_none_parked("usleep", [] { return usleep(100000); });
		}));
	sn_waitgroup_done(&begin);
	test::join_all(sleepers);
}

// So that a count of none above means something.
TASK_TEST(Allocation, IsSeenInLookupsOfNames, 2)
{
	hooked([] {
		const int before = allocations;
		struct addrinfo *found = nullptr;

		set_counts(true);
		const int result = getaddrinfo("localhost", nullptr, nullptr, &found);
		set_counts(false);
		if (result == 0)
			freeaddrinfo(found);
		EXPECT_LT(before, allocations);
	}).join();
}

} // namespace
