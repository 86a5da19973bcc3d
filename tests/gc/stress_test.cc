// SPDX-License-Identifier: MIT
//
// Tasks make random calls, and hold trees on the collected heap all the time. The collector runs as
// often as it can, on any thread. A tree that was collected while a task held it is found by its
// root's finalizer, which spoils it, or by its checksums.
#include <atomic>
#include <vector>

#include <unistd.h>

#include <sennit/sennit.h>

#include "gc/heap.h"

namespace
{

using namespace test;

// A node of a tree. With trees, a task holds more than the few words on its stack.
struct Item {
	Item *left, *right;
	uint64_t id;
	uint64_t check;
};

std::atomic<uint64_t> made, finalized;
std::atomic<uint64_t> damaged;

uint64_t check_of(const Item *item)
{
	return (item->id * 0x9e3779b97f4a7c15) ^ (uintptr_t)item->left * 31 ^
	       (uintptr_t)item->right * 17;
}

// A tree of this depth. The root gets a finalizer, which spoils it, only from make_watched().
Item *make(int depth)
{
	auto *item = static_cast<Item *>(GC_MALLOC(sizeof(Item)));

	if (!item)
		abort();
	item->id = made.fetch_add(1);
	item->left = depth > 0 ? make(depth - 1) : nullptr;
	item->right = depth > 1 ? make(depth - 2) : nullptr;
	item->check = check_of(item);
	return item;
}

Item *make_watched(int depth)
{
	Item *root = make(depth);

	GC_REGISTER_FINALIZER_NO_ORDER(
		root,
		[](void *object, void *) {
			static_cast<Item *>(object)->check = 0;
			finalized++;
		},
		nullptr, nullptr, nullptr);
	return root;
}

bool whole(const Item *item)
{
	return item->check == check_of(item) && (!item->left || whole(item->left)) &&
	       (!item->right || whole(item->right));
}

void expect_whole(const Item *item)
{
	if (!whole(item))
		damaged++;
}

struct Shared {
	sn_chan *buffered, *direct;
	sn_semaphore permits = SN_SEMAPHORE_INIT(3);
	std::atomic<int> alive{0};
	std::atomic<uint64_t> steps{0};
	std::atomic<int64_t> until;
	int pipe[2];
};

struct Child {
	Item *item;
	Shared *shared;
	uint64_t seed;
	int depth;
};

int live(Child *child);

int live_in_task(void *arg)
{
	return live(static_cast<Child *>(arg));
}

void start(Shared *shared, uint64_t seed, int depth, Random &random)
{
	struct Padded : Child {
		char filler[200];
	} child;
	sn_task_attr attr = {};

	static_cast<Child &>(child) = {make_watched((int)random.below(4)), shared, seed, depth};
	// The argument is in the task's control block, or on its stack.
	attr.arg_size = random.below(2) ? sizeof(Child) : sizeof(Padded);
	shared->alive++;
	if (sn_spawn(nullptr, live_in_task, &child, &attr) < 0)
		shared->alive--;
}

void block(Random &random)
{
	switch (random.below(3)) {
	case 0: // long enough for the processor to be revoked
		sn_enter_blocking();
		usleep(200);
		sn_exit_blocking();
		break;
	case 1:
		GC_do_blocking(
			[](void *) -> void * {
				sn_enter_blocking();
				usleep(50);
				sn_exit_blocking();
				return nullptr;
			},
			nullptr);
		break;
	default:
		sn_enter_blocking();
		sn_exit_blocking();
	}
}

// One step of a task, at random, with the item on the stack or in a register.
[[gnu::noinline]] void step(Shared *shared, Random &random, int depth)
{
	Item *item = make_watched((int)random.below(4)), *other = nullptr;

	shared->steps++;
	switch (random.below(11)) {
	case 0:
		sn_yield();
		break;
	case 1:
		sn_sleep((int64_t)random.below(200) * us);
		break;
	case 2:
		if (sn_chan_try_send(shared->buffered, &item) == 0)
			item = nullptr;
		break;
	case 3:
		if (sn_chan_try_recv(shared->buffered, &other) < 0)
			other = nullptr;
		break;
	case 4: // meets another task if that comes in time
		if (sn_chan_send_until(shared->direct, &item, sn_now() + 300 * us) == 0)
			item = nullptr;
		break;
	case 5:
		if (sn_chan_recv_until(shared->direct, &other, sn_now() + 300 * us) < 0)
			other = nullptr;
		break;
	case 6:
		if (sn_semaphore_acquire(&shared->permits) == 0) {
			sn_yield();
			sn_semaphore_release(&shared->permits, 1);
		}
		break;
	case 7:
		block(random);
		break;
	case 8:
		if (depth < 3 && shared->alive < 2000)
			start(shared, random.next(), depth + 1, random);
		break;
	case 9: // computes
		for (int i = 0; i < 200; i++)
			expect_whole(item);
		break;
	default:
		if (random.below(16) == 0)
			GC_gcollect();
		else if (random.below(8) == 0)
			GC_invoke_finalizers();
	}
	if (item)
		expect_whole(item);
	if (other)
		expect_whole(other);
}

// Recurses, with a reference to keep in every frame.
[[gnu::noinline]] void descend(Shared *shared, Random &random, int frames, int depth)
{
	Item *mine = make_watched(2);

	step(shared, random, depth);
	if (frames > 0 && sn_now() < shared->until)
		descend(shared, random, frames - 1, depth);
	expect_whole(mine);
}

int live(Child *child)
{
	Random random(child->seed);

	while (sn_now() < child->shared->until) {
		descend(child->shared, random, (int)random.below(20), child->depth);
		expect_whole(child->item);
		if (random.below(8) == 0)
			break;
	}
	child->shared->alive--;
	return 0;
}

// Runs for this long, or until an item is damaged.
void stress(int processors, Random &random, int64_t length)
{
	made = finalized = damaged = 0;
	run(processors, [&] {
		Shared shared;
		struct sn_gc_stats before, after;

		ASSERT_EQ(0, sn_gc_stats(&before));
		ASSERT_EQ(0, sn_chan_new(&shared.buffered, sizeof(Item *), 100));
		ASSERT_EQ(0, sn_chan_new(&shared.direct, sizeof(Item *), 0));
		const int64_t end = sn_now() + length;
		shared.until = end + patience;
		// Continues until some roots are finalized, however slow the machine is.
		while ((sn_now() < end || (finalized == 0 && sn_now() < shared.until)) &&
		       damaged == 0) {
			while (shared.alive < 300)
				start(&shared, random.next(), 0, random);
			GC_gcollect();
			sn_sleep(2 * ms);
		}
		shared.until = 0;
		EXPECT_TRUE(eventually([&] { return shared.alive == 0; }));
		Item *item;
		while (sn_chan_try_recv(shared.buffered, &item) == 0)
			expect_whole(item);
		sn_chan_unref(shared.buffered);
		sn_chan_unref(shared.direct);
		ASSERT_EQ(0, sn_gc_stats(&after));
		printf("%d processors: %llu steps, %llu items, %llu roots finalized, %llu "
		       "collections\n",
		       processors, (unsigned long long)shared.steps.load(),
		       (unsigned long long)made.load(), (unsigned long long)finalized.load(),
		       (unsigned long long)(after.stops - before.stops));
		EXPECT_GT(after.stops, before.stops);
		EXPECT_GT(finalized, 0u);
	});
}

TEST(GcStress, EverythingAtOnce)
{
	Random random;

	connect();
	for (int processors : {1, 2, 4, 8}) {
		stress(processors, random, second);
		EXPECT_EQ(0u, damaged);
	}
}

// Tasks that do nothing but switch, each with a list in a register, so that threads are stopped
// before, in and after a switch. Collects this many times, or until a list is lost. Returns how
// many were lost.
uint32_t lost_in_switches(int collections)
{
	constexpr int n = 64;
	Lists lists(n);
	std::atomic<bool> end{false};
	std::atomic<int> broken{0};
	std::vector<Task> tasks;

	for (int i = 0; i < n; i++)
		tasks.emplace_back([&] {
			auto switch_all_the_time = [&] {
				while (!end)
					sn_yield();
			};

			if (!lists.whole(hold(lists.make(), switch_all_the_time)))
				broken++;
		});
	for (int i = 0; i < collections && !lists.ended(); i++) {
		GC_gcollect();
		while (GC_should_invoke_finalizers())
			GC_invoke_finalizers();
		sn_yield();
	}
	const uint32_t lost = lists.ended();
	end = true;
	join_all(tasks);
	EXPECT_EQ(lost > 0, broken > 0);
	return lost;
}

TEST(GcStress, Switches)
{
	connect();
	run({1, 2, 4}, [] { EXPECT_EQ(0u, lost_in_switches(scaled(100))); });
	// A list is lost in one of some dozens of collections.
	run(2, [] {
		Blind blind(SN_GC_BLIND_SWITCHES);
		EXPECT_GT(lost_in_switches(20000), 0u);
	});
}

// Connections, deadlines and sleeps while threads are interrupted all the time. No wait in sennit
// ends early or with EINTR.
TEST(GcStress, WaitsAreNotInterrupted)
{
	connect();
	run({1, 2, 4}, [] {
		constexpr int n = 8;
		sn_tcp_listener *listener;
		char address[64];
		std::atomic<int> busy{2 * n};
		std::vector<Task> tasks;

		ASSERT_EQ(0, sn_tcp_listen(&listener, "127.0.0.1:0"));
		ASSERT_GT(sn_tcp_listener_address(listener, address, sizeof address), 0);
		auto echo = [&](sn_tcp *peer) {
			auto *line = static_cast<char *>(GC_MALLOC_ATOMIC(100));
			ssize_t got;

			while ((got = sn_tcp_read(peer, line, 100)) > 0)
				EXPECT_EQ(got, sn_tcp_write_all(peer, line, (size_t)got, nullptr));
			EXPECT_EQ(0, got);
			EXPECT_EQ(0, sn_tcp_close(peer));
			busy--;
		};
		tasks.emplace_back([&] {
			for (int i = 0; i < n; i++) {
				sn_tcp *peer;

				ASSERT_EQ(0, sn_tcp_accept(listener, &peer));
				Task([&, peer] { echo(peer); }).detach();
			}
		});
		for (int i = 0; i < n; i++)
			tasks.emplace_back([&] {
				sn_tcp *peer;

				ASSERT_EQ(0, sn_tcp_connect(&peer, address, SN_NO_DEADLINE));
				for (int k = 0; k < scaled(100); k++) {
					const int64_t begun = sn_now();
					auto *line = static_cast<char *>(GC_MALLOC_ATOMIC(100));

					line[0] = (char)k;
					ASSERT_EQ(1, sn_tcp_write_all(peer, line, 1, nullptr));
					line[0] = (char)(k + 1);
					ASSERT_EQ(1, sn_tcp_read(peer, line, 100));
					EXPECT_EQ((char)k, line[0]);
					if (k % 10 == 0) {
						EXPECT_EQ(0, sn_sleep(ms));
						EXPECT_GE(sn_now(), begun + ms);
					}
				}
				EXPECT_EQ(0, sn_tcp_close(peer));
				busy--;
			});
		while (busy > 0 && !testing::Test::HasFailure()) {
			GC_gcollect();
			sn_sleep(100 * us);
		}
		join_all(tasks);
		EXPECT_EQ(0, sn_tcp_listener_close(listener));
	});
}

// The stress test notices if any part of the bridge is left out.
TEST(GcStress, Mutants)
{
	Random random;

	connect();
	for (int what : {SN_GC_BLIND_STACKS, SN_GC_BLIND_ARGUMENTS, SN_GC_BLIND_VALUES}) {
		Blind blind(what);

		stress(4, random, patience);
		EXPECT_GT(damaged, 0u) << what;
	}
}

} // namespace
