/* SPDX-License-Identifier: MIT */
/* Labels: core */
/*
 * Attempts to connect whose clients go away, without sessions: which clients count as gone, and
 * what is left when memory is short at any moment. The linker leads the library's and the relay's
 * allocations here (--wrap).
 */
#include "harness.hpp"
#include "sessions/attempts.hpp"
#include "support/runtime.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <gtest/gtest.h>
#include <new>
#include <stdexcept>
#include <sys/socket.h>

using namespace harness;

namespace
{

/* How many more allocations succeed; negative: all do. */
std::atomic<int> left{-1};
std::atomic<unsigned> allocations{0};
std::atomic<unsigned> refused{0};

bool may_allocate()
{
	allocations++;
	if (left < 0)
		return true;
	if (left.fetch_sub(1) > 0)
		return true;
	left = 0;
	refused++;
	return false;
}

} // namespace

extern "C" {

/* Names of the linker. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
void *__real_malloc(std::size_t size);
void *__real_calloc(std::size_t n, std::size_t size);
void *__real_realloc(void *old, std::size_t size);
void *__real_aligned_alloc(std::size_t alignment, std::size_t size);
void *__wrap_malloc(std::size_t size);
void *__wrap_calloc(std::size_t n, std::size_t size);
void *__wrap_realloc(void *old, std::size_t size);
void *__wrap_aligned_alloc(std::size_t alignment, std::size_t size);

void *__wrap_malloc(std::size_t size)
{
	return may_allocate() ? __real_malloc(size) : nullptr;
}

void *__wrap_calloc(std::size_t n, std::size_t size)
{
	return may_allocate() ? __real_calloc(n, size) : nullptr;
}

void *__wrap_realloc(void *old, std::size_t size)
{
	return may_allocate() ? __real_realloc(old, size) : nullptr;
}

void *__wrap_aligned_alloc(std::size_t alignment, std::size_t size)
{
	return may_allocate() ? __real_aligned_alloc(alignment, size) : nullptr;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
}

/* The sanitizers have operators of their own; with them only the C code's allocations count. */
#if !TEST_ASAN && !TEST_TSAN
void *operator new(std::size_t size)
{
	if (void *memory = malloc(size ? size : 1))
		return memory;
	throw std::bad_alloc();
}

void operator delete(void *memory) noexcept
{
	free(memory);
}

void operator delete(void *memory, std::size_t) noexcept
{
	free(memory);
}
#endif

namespace
{

using attempt = relay::attempts::attempt;

const std::atomic<bool> never_over{false};

/* A client's connection, and what the relay has of it. */
struct connection {
	connection()
	{
		const listener at;
		client = peer::connect(at.address());
		accepted = listener_accept(at);
	}
	static peer listener_accept(const listener &at)
	{
		return peer(accept(at.fd(), nullptr, nullptr));
	}

	peer client, accepted;
};

void run(const std::function<void(relay::attempts &)> &body)
{
	test::run({1, 4}, [&] {
		relay::attempts all;
		const relay::attempts_watch watching(all);
		body(all);
	});
}

/* The client resets its connection during an attempt, which ends. */
void expect_watched(relay::attempts &all)
{
	connection reset;
	const attempt made(all, reset.accepted.fd(), never_over);
	reset.client.reset();
	EXPECT_EQ(sn_sleep(3600 * test::second), -ECANCELED);
	EXPECT_TRUE(made.client_left());
}

TEST(Attempts, EndWithAReset)
{
	run([](auto &all) {
		expect_watched(all);
		expect_watched(all);
		EXPECT_EQ(sn_scope_current(), nullptr);
	});
}

TEST(Attempts, EndWhenTheSessionIsOver)
{
	run([](auto &all) {
		const connection open;
		std::atomic<bool> is_over{false};
		sn_scope *before = sn_scope_current();
		{
			const attempt made(all, open.accepted.fd(), is_over);
			is_over = true;
			EXPECT_EQ(sn_sleep(3600 * test::second), -ECANCELED);
			EXPECT_FALSE(made.client_left());
			is_over = false;
		}
		EXPECT_EQ(sn_scope_current(), before);
		expect_watched(all);
	});
}

TEST(Attempts, EndWhenAUnixSocketIsClosed)
{
	run([](auto &all) {
		int both[2];
		ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
		peer client(both[0]);
		const peer accepted(both[1]);
		const attempt made(all, accepted.fd(), never_over);
		client.close();
		EXPECT_EQ(sn_sleep(3600 * test::second), -ECANCELED);
		EXPECT_TRUE(made.client_left());
	});
}

/* Attempts are looked at in the order in which they began, so what was not ended when a later one
 * was is not ended by that look. */
TEST(Attempts, DoNotEndWithTheEndOfAStream)
{
	run([](auto &all) {
		for (const char *sent : {"", "request"}) {
			connection ended;
			ended.client.send(sent);
			ended.client.shutdown_write();
			sn::semaphore begun, over;
			test::Task other([&] {
				const attempt made(all, ended.accepted.fd(), never_over);
				begun.release();
				EXPECT_TRUE(over.try_acquire_for(30s));
				EXPECT_FALSE(made.client_left());
			});
			begun.acquire();
			expect_watched(all);
			over.release();
			EXPECT_EQ(other.join(), 0);
		}
	});
}

TEST(Attempts, AreAllLookedAt)
{
	run([](auto &all) {
		std::deque<connection> many(relay::attempts::at_once * 2 + 1);
		std::deque<test::Task> tasks;
		for (auto &each : many)
			tasks.emplace_back([&] {
				const attempt made(all, each.accepted.fd(), never_over);
				EXPECT_EQ(sn_sleep(3600 * test::second), -ECANCELED);
				EXPECT_TRUE(made.client_left());
			});
		for (auto &each : many)
			each.client.reset();
		for (auto &each : tasks)
			EXPECT_EQ(each.join(), 0);
	});
}

TEST(Attempts, AreForgottenWhenTheyThrow)
{
	run([](auto &all) {
		try {
			const connection quiet;
			const attempt made(all, quiet.accepted.fd(), never_over);
			throw std::runtime_error("no memory");
		} catch (const std::runtime_error &) {
			EXPECT_EQ(sn_scope_current(), nullptr);
		}
		expect_watched(all);
	});
}

/* A few allocations at most: a task that the kernel interrupts may continue on a processor that has
 * no scopes yet. */
TEST(Attempts, DoNotAllocateEachTimeWhenTheyAreAnsweredAtOnce)
{
	run([](auto &all) {
		const connection quiet;
		expect_watched(all);
		const unsigned before = allocations;
		for (int i = 0; i < 1000; i++)
			const attempt made(all, quiet.accepted.fd(), never_over);
		EXPECT_LT(allocations - before, 50U);
	});
}

/* All allocations are refused from one on, which is each in turn: the attempt ends by itself, or
 * because the client has gone, and the next one is watched again. */
TEST(Attempts, LeaveNothingWhenMemoryIsShort)
{
	const silent_backend silent;
	unsigned cases = 0;
	for (int succeed = 0;; succeed++) {
		const unsigned before = refused;
		/* A new runtime, which has to allocate again. */
		test::run(2, [&] {
			relay::attempts all;
			const relay::attempts_watch watching(all);
			connection reset;
			reset.client.reset();
			left = succeed;
			try {
				const attempt made(all, reset.accepted.fd(), never_over);
				const auto connected =
					sn::tcp::connect(silent.address(), sn::after(300ms));
				EXPECT_FALSE(connected);
			} catch (const std::bad_alloc &) {
			}
			left = -1;
			EXPECT_EQ(sn_scope_current(), nullptr);
			expect_watched(all);
		});
		if (refused == before)
			break;
		cases++;
		ASSERT_LT(cases, 100U);
	}
	EXPECT_GT(cases, 0U);
}

/* Without memory for the timer, nobody watches until there is some. */
TEST(Attempts, AreMadeUnwatchedWithoutMemory)
{
	test::run(2, [&] {
		relay::attempts all;
		const relay::attempts_watch watching(all);
		{
			connection reset;
			reset.client.reset();
			left = 0;
			const attempt made(all, reset.accepted.fd(), never_over);
		}
		left = -1;
		expect_watched(all);
	});
}

} // namespace
