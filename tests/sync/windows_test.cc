// SPDX-License-Identifier: MIT
//
// Events between two steps of an operation, and states that others must not see. The tests hold the
// lock that the second step needs, so that the rare interleaving happens each time.
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "support/channel.h"
#include "support/locks.h"

namespace
{

using test::Chan;

// Nearly always long enough for a thread to reach the lock. If it is not, the test still passes.
constexpr useconds_t soon = 2000;

// A permit that is released after a caller has found none, but before it has announced its wait,
// goes to that caller.
TEST(Windows, APermitReleasedBeforeTheWaitIsTaken)
{
	for (int i = 0; i < 20; i++) {
		sn_semaphore s = SN_SEMAPHORE_INIT(0);

		probe_waits_lock(&s);
		std::thread thread([&] { EXPECT_EQ(0, sn_semaphore_acquire(&s)); });
		usleep(soon);
		EXPECT_EQ(0, sn_semaphore_release(&s, 1));
		probe_waits_unlock(&s);
		thread.join();
		EXPECT_EQ(0u, s.word);
	}
}

// A count that becomes zero in that window ends the wait. A mutex or lock that becomes free there
// is taken.
TEST(Windows, WhatComesBeforeTheWaitIsNotMissed)
{
	for (int i = 0; i < 20; i++) {
		sn_waitgroup group = SN_WAITGROUP_INIT;

		EXPECT_EQ(0, sn_waitgroup_add(&group, 1));
		probe_waits_lock(&group);
		std::thread thread([&] { EXPECT_EQ(0, sn_waitgroup_wait(&group)); });
		usleep(soon);
		EXPECT_EQ(0, sn_waitgroup_done(&group));
		probe_waits_unlock(&group);
		thread.join();
	}
	for (int i = 0; i < 20; i++) {
		sn_mutex lock = SN_MUTEX_INIT;

		EXPECT_EQ(0, sn_mutex_lock(&lock));
		probe_waits_lock(&lock);
		std::thread thread([&] {
			EXPECT_EQ(0, sn_mutex_lock(&lock));
			EXPECT_EQ(0, sn_mutex_unlock(&lock));
		});
		usleep(soon);
		EXPECT_EQ(0, sn_mutex_unlock(&lock));
		probe_waits_unlock(&lock);
		thread.join();
		EXPECT_EQ(0u, lock.word);
	}
	for (int i = 0; i < 20; i++) {
		const bool writes = i % 2, written = i % 4 > 1;
		sn_rwlock lock = SN_RWLOCK_INIT;

		if (!writes && !written)
			continue; // readers share
		EXPECT_EQ(0, written ? sn_rwlock_write(&lock) : sn_rwlock_read(&lock));
		probe_waits_lock(&lock);
		std::thread thread([&] {
			EXPECT_EQ(0, writes ? sn_rwlock_write(&lock) : sn_rwlock_read(&lock));
			EXPECT_EQ(0, writes ? sn_rwlock_write_unlock(&lock)
					    : sn_rwlock_read_unlock(&lock));
		});
		usleep(soon);
		EXPECT_EQ(0,
			  written ? sn_rwlock_write_unlock(&lock) : sn_rwlock_read_unlock(&lock));
		probe_waits_unlock(&lock);
		thread.join();
		EXPECT_EQ(0u, lock.word);
	}
}

// Every operation that changes a channel holds its lock.
TEST(Windows, NoOperationChangesALockedChannel)
{
	Chan<int> ready(2), never;
	int value = 0, other = 0;
	sn_case cases[] = {never.recv_case(&other), ready.send_case(&value)};
	const std::function<void()> operations[] = {
		[&] { EXPECT_EQ(0, ready.send(1)); },
		[&] { EXPECT_EQ(0, ready.recv(&value)); },
		[&] { EXPECT_EQ(0, ready.try_send(1)); },
		[&] { EXPECT_EQ(0, ready.try_recv(&value)); },
		[&] { EXPECT_EQ(1, sn_select(cases, 2, SN_NO_DEADLINE)); },
		[&] { EXPECT_EQ(0, ready.close()); },
	};

	for (const auto &operation : operations) {
		std::atomic<bool> done{false};

		probe_chan_lock(ready.get());
		std::thread thread([&] {
			operation();
			done = true;
		});
		usleep(soon);
		EXPECT_FALSE(done) << &operation - operations;
		probe_chan_unlock(ready.get());
		thread.join();
	}
}

// The C++ channels put elements with an alignment of 16 into the buffer itself.
TEST(Windows, ElementsAreAligned)
{
	struct alignas(16) Element {
		char bytes[16];
	};
	static std::atomic<int> moved, odd;
	const sn_elem_ops ops = {[](void *to, void *from) {
					 moved++;
					 if (uintptr_t(to) % 16 || uintptr_t(from) % 16)
						 odd++;
					 *static_cast<char *>(to) = *static_cast<char *>(from);
				 },
				 [](void *) {}};
	sn_chan *chan = nullptr;
	Element element = {};

	moved = 0;
	odd = 0;
	ASSERT_EQ(0, sn_chan_new_with_ops(&chan, sizeof element, 3, &ops));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(0, sn_chan_send(chan, &element));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(0, sn_chan_recv(chan, &element));
	sn_chan_unref(chan);
	EXPECT_EQ(6, moved);
	EXPECT_EQ(0, odd);
}

} // namespace
