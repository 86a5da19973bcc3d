// SPDX-License-Identifier: MIT
// Labels: machine
//
// Values of tasks: whose they are, when and in which order they are destroyed, what children
// inherit, and each error that local.h documents. The program counts what the library allocates for
// its values, so each test also finds what was not freed.
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>

#include <sennit/collector.h>

#include "support/runtime.h"
#include "support/scope.h"

namespace
{

using namespace test;

// ---- the memory of the library ----

std::atomic<int> allocated{0};
std::atomic<int> fail_after{-1}; // how many more allocations succeed; -1: all of them

void *counting_alloc(size_t align, size_t size)
{
	if (fail_after >= 0 && fail_after-- == 0) {
		fail_after = 0;
		return nullptr;
	}
	allocated++;
	return aligned_alloc(align, (size + align - 1) / align * align);
}

void counting_free(void *memory)
{
	if (memory)
		allocated--;
	free(memory);
}

const sn_collector counting = [] {
	sn_collector made = {};

	made.alloc = counting_alloc;
	made.free = counting_free;
	return made;
}();

class Local : public testing::Test
{
protected:
	static void SetUpTestSuite()
	{
		const int err = sn_collector_install(&counting);

		EXPECT_TRUE(err == 0 || err == -EEXIST) << err;
	}
	void SetUp() override { before = allocated; }
	void TearDown() override
	{
		EXPECT_EQ(before, allocated.load()) << "memory of the library was not freed";
		EXPECT_EQ(-1, fail_after.load());
	}
	int before = 0;
};
using LocalDeathTest = Local;

// ---- keys ----

// What destructors and copies have done, in order. Only one task appends at a time, or joins order
// the tasks.
std::string log_of_calls;

char *text(const char *string)
{
	return const_cast<char *>(string);
}

void note(void *value)
{
	log_of_calls += static_cast<char *>(value);
}

sn_local plain, other, a_key = {note, nullptr, 0}, b_key = {note, nullptr, 0},
		       c_key = {note, nullptr, 0};

// A value with a reference count.
struct Counted {
	std::atomic<int> references{1};
};

void drop(void *value)
{
	static_cast<Counted *>(value)->references--;
}

void *retain(void *value)
{
	static_cast<Counted *>(value)->references++;
	return value;
}

sn_local counted = {drop, retain, SN_LOCAL_INHERITED}, lent = {drop, nullptr, SN_LOCAL_INHERITED};

// ---- values ----

TEST_F(Local, EachTaskHasItsOwn)
{
	test::run([] {
		std::vector<Task> tasks;

		for (int i = 0; i < 50; i++)
			tasks.emplace_back([] {
				int mine = 0, mine_too = 0;

				EXPECT_EQ(nullptr, sn_local_get(&plain));
				EXPECT_EQ(0, sn_local_set(&plain, &mine));
				EXPECT_EQ(0, sn_local_set(&other, &mine_too));
				for (int j = 0; j < 20; j++) {
					EXPECT_EQ(0, j % 5 ? sn_yield() : sn_sleep(10 * test::us));
					EXPECT_EQ(&mine, sn_local_get(&plain));
					EXPECT_EQ(&mine_too, sn_local_get(&other));
				}
			});
		join_all(tasks);
		EXPECT_EQ(nullptr, sn_local_get(&plain));
	});
}

TEST_F(Local, AreReplacedAndRemovedWithoutADestructor)
{
	log_of_calls = "";
	test::run([] {
		Task task([] {
			EXPECT_EQ(0, sn_local_set(&a_key, nullptr)) << "there was none";
			EXPECT_EQ(0, sn_local_set(&a_key, text("1")));
			EXPECT_EQ(0, sn_local_set(&b_key, text("2")));
			EXPECT_EQ(0, sn_local_set(&c_key, text("3")));
			EXPECT_EQ(0, sn_local_set(&a_key, text("4")));
			EXPECT_STREQ("4", (char *)sn_local_get(&a_key));
			EXPECT_EQ(0, sn_local_set(&b_key, nullptr));
			EXPECT_EQ(nullptr, sn_local_get(&b_key));
			EXPECT_STREQ("3", (char *)sn_local_get(&c_key));
			EXPECT_STREQ("4", (char *)sn_local_get(&a_key));
			log_of_calls += "end ";
		});
		task.join();
		EXPECT_EQ("end 34", log_of_calls) << "the last that was set first";
		log_of_calls = "";
	});
}

TEST_F(Local, Misuse)
{
	static sn_local strange = {nullptr, nullptr, 2};

	EXPECT_EQ(-EINVAL, sn_local_set(nullptr, &strange));
	EXPECT_EQ(-EINVAL, sn_local_set(&strange, &strange));
	EXPECT_EQ(-ENOTSUP, sn_local_set(&plain, &strange));
	EXPECT_EQ(nullptr, sn_local_get(&plain));
	EXPECT_EQ(nullptr, sn_local_get(nullptr));
	test::run(1, [] {
		EXPECT_EQ(-EINVAL, sn_local_set(nullptr, &strange));
		EXPECT_EQ(-EINVAL, sn_local_set(&strange, &strange));
		EXPECT_EQ(nullptr, sn_local_get(nullptr));
		EXPECT_EQ(0, sn_local_set(&plain, &strange));
		std::thread thread([] {
			EXPECT_EQ(-ENOTSUP, sn_local_set(&plain, &strange));
			EXPECT_EQ(nullptr, sn_local_get(&plain));
		});

		sn_enter_blocking();
		thread.join();
		sn_exit_blocking();
		EXPECT_EQ(&strange, sn_local_get(&plain));
	});
}

TEST_F(Local, OutOfMemory)
{
	test::run(1, [] {
		Task task([] {
			EXPECT_EQ(0, sn_local_set(&a_key, text("")));
			fail_after = 0;
			EXPECT_EQ(-ENOMEM, sn_local_set(&plain, &log_of_calls));
			EXPECT_EQ(nullptr, sn_local_get(&plain));
			EXPECT_EQ(0, sn_local_set(&plain, nullptr));
			EXPECT_EQ(0, sn_local_set(&a_key, text(" ")))
				<< "the key has its memory already";
			fail_after = -1;
			EXPECT_EQ(0, sn_local_set(&plain, &log_of_calls));
		});
		task.join();
	});
}

// ---- destructors ----

struct Ending {
	sn_task *task;
	std::atomic<int> *ended;
};

void park_and_count(void *value)
{
	Ending *ending = static_cast<Ending *>(value);

	EXPECT_EQ(ending->task, sn_self()) << "in the task itself";
	EXPECT_EQ(0, sn_sleep(2 * ms));
	++*ending->ended;
}

sn_local parking = {park_and_count, nullptr, 0};

TEST_F(Local, DestructorsMayParkAndJoinsWaitForThem)
{
	test::run([] {
		std::atomic<int> ended{0};
		std::vector<Ending> endings(10);
		std::vector<Task> tasks;

		for (Ending &ending : endings)
			tasks.emplace_back([&] {
				ending = {sn_self(), &ended};
				EXPECT_EQ(0, sn_local_set(&parking, &ending));
				if (&ending == &endings[0]) {
					EXPECT_EQ(0, sn_pin());
				}
				return 5;
			});
		for (Task &task : tasks)
			EXPECT_EQ(5, task.join());
		EXPECT_EQ(10, ended);
	});
}

TEST_F(Local, ScopesWaitForDestructors)
{
	test::run([] {
		std::atomic<int> ended{0};
		Ending ending = {nullptr, &ended};
		Scope scope;

		scope.go([&] {
			ending.task = sn_self();
			return sn_local_set(&parking, &ending);
		});
		EXPECT_EQ(0, scope.close());
		EXPECT_EQ(1, ended);
	});
}

void sleep_cancelled(void *value)
{
	*static_cast<int *>(value) = sn_sleep(forever);
}

TEST_F(Local, CancellationReachesDestructors)
{
	static sn_local key = {sleep_cancelled, nullptr, 0};

	test::run([] {
		int result = 1;
		Scope scope;

		scope.go([&] {
			EXPECT_EQ(0, sn_local_set(&key, &result));
			return 0;
		});
		sn_sleep(ms);
		scope.cancel();
		EXPECT_EQ(-ECANCELED, scope.close());
		EXPECT_EQ(-ECANCELED, result);
	});
}

TEST_F(Local, TheFirstTasksAreDestroyedBeforeItsRunEnds)
{
	std::atomic<int> ended{0};
	Ending ending = {nullptr, &ended};

	for (int processors : {1, 2}) {
		ended = 0;
		test::run(processors, [&] {
			ending.task = sn_self();
			EXPECT_EQ(0, sn_local_set(&parking, &ending));
		});
		EXPECT_EQ(1, ended);
	}
}

// Logs which keys have values while another one is destroyed.
void look_around(void *value)
{
	log_of_calls += static_cast<char *>(value);
	for (sn_local *key : {&a_key, &b_key, &c_key})
		log_of_calls += sn_local_get(key) ? "+" : "-";
}

TEST_F(Local, EarlierValuesAreThereWhileLaterOnesAreDestroyed)
{
	static sn_local looking = {look_around, nullptr, 0};

	log_of_calls = "";
	test::run(1, [] {
		Task task([] {
			EXPECT_EQ(0, sn_local_set(&a_key, text("a")));
			EXPECT_EQ(0, sn_local_set(&b_key, text("b")));
			EXPECT_EQ(0, sn_local_set(&looking, text("look")));
			EXPECT_EQ(0, sn_local_set(&c_key, text("c")));
		});
		task.join();
		EXPECT_EQ("clook++-ba", log_of_calls);
		log_of_calls = std::string();
		log_of_calls.shrink_to_fit();
	});
}

// A destructor that sets the value again, until `left` is 0.
extern sn_local insisting;

void insist(void *value)
{
	int *left = static_cast<int *>(value);

	EXPECT_EQ(nullptr, sn_local_get(&insisting)) << "a key has no value in its destructor";
	if (--*left > 0) {
		EXPECT_EQ(0, sn_local_set(&insisting, left));
	}
}

sn_local insisting = {insist, nullptr, 0};

// Lets a destructor set its value so many times; returns how many of these calls were not made.
int insist_on(int times)
{
	int left = times;

	Task([&] { EXPECT_EQ(0, sn_local_set(&insisting, &left)); }).join();
	return left;
}

TEST_F(Local, DestructorsMaySetValues)
{
	test::run(1, [] {
		EXPECT_EQ(0, insist_on(1));
		EXPECT_EQ(0, insist_on(1 + SN_LOCAL_ROUNDS));
		EXPECT_EQ(0, insist_on(1 + SN_LOCAL_ROUNDS)) << "each task has a count of its own";
	});
}

#if !SENNIT_DEBUG
TEST_F(Local, DestructorsDoNotKeepATaskForever)
{
	test::run(1, [] { EXPECT_EQ(1000 - 1 - SN_LOCAL_ROUNDS, insist_on(1000)); });
}
#else
TEST_F(LocalDeathTest, DestructorsDoNotKeepATaskForever)
{
	GTEST_FLAG_SET(death_test_style, TEST_DEATH_STYLE);
	EXPECT_DEATH(test::run(1, [] { insist_on(1000); }), "forever");
}
#endif

// ---- inheritance ----

TEST_F(Local, ChildrenBorrowWithoutACopyFunction)
{
	test::run([] {
		Counted value, later;

		EXPECT_EQ(0, sn_local_set(&lent, &value));
		EXPECT_EQ(0, sn_local_set(&plain, &value));
		Task child([&] {
			EXPECT_EQ(&value, sn_local_get(&lent));
			EXPECT_EQ(nullptr, sn_local_get(&plain)) << "not inherited";
			Task([&] { EXPECT_EQ(&value, sn_local_get(&lent)); }).join();
			Task([&] {
				EXPECT_EQ(0, sn_local_set(&lent, &later));
				EXPECT_EQ(&later, sn_local_get(&lent));
			}).join();
			EXPECT_EQ(0, later.references) << "its own, so it is destroyed";
			EXPECT_EQ(&value, sn_local_get(&lent)) << "children change nothing here";
		});
		EXPECT_EQ(0, sn_local_set(&lent, &later));
		child.join();
		EXPECT_EQ(1, value.references) << "a borrowed value is not destroyed";
		EXPECT_EQ(0, sn_local_set(&lent, nullptr));
	});
}

TEST_F(Local, ChildrenHaveCopies)
{
	test::run([] {
		Counted value;

		EXPECT_EQ(0, sn_local_set(&counted, &value));
		std::atomic<bool> go_on{false};
		Task child([&] {
			while (!go_on)
				sn_yield();
			EXPECT_EQ(&value, sn_local_get(&counted));
			EXPECT_EQ(1, value.references)
				<< "the child's copy, after the parent has given up its own";
			Task([&] { EXPECT_EQ(2, value.references); }).join();
		});
		EXPECT_EQ(2, value.references) << "copied by the parent, when it started the child";
		EXPECT_EQ(0, sn_local_set(&counted, nullptr));
		drop(&value);
		go_on = true;
		child.join();
		EXPECT_EQ(0, value.references);
	});
}

// A copy function may change other values of the parent, which the child then has, too.
TEST_F(Local, ChildrenHaveWhatACopyFunctionHasSet)
{
	static Counted first, second, borrowed;
	static sn_local removed = {drop, retain, SN_LOCAL_INHERITED};
	static sn_local changing = {nullptr,
				    [](void *value) {
					    EXPECT_EQ(0, sn_local_set(&counted, &second));
					    EXPECT_EQ(0, sn_local_set(&lent, &borrowed));
					    EXPECT_EQ(0, sn_local_set(&removed, nullptr));
					    return value;
				    },
				    SN_LOCAL_INHERITED};

	test::run([] {
		char mark = 0;

		first.references = second.references = borrowed.references = 1;
		for (const sn_local *key : {&counted, &lent, &removed})
			EXPECT_EQ(0, sn_local_set(key, &first));
		EXPECT_EQ(0, sn_local_set(&changing, &mark));
		Task([&] {
			EXPECT_EQ(&mark, sn_local_get(&changing));
			EXPECT_EQ(&second, sn_local_get(&counted));
			EXPECT_EQ(2, second.references);
			EXPECT_EQ(&borrowed, sn_local_get(&lent));
			EXPECT_EQ(nullptr, sn_local_get(&removed));
			EXPECT_EQ(0, sn_local_set(&changing, nullptr));
			Task([] { EXPECT_EQ(nullptr, sn_local_get(&removed)); }).join();
		}).join();
		EXPECT_EQ(1, first.references) << "it was copied, or destroyed";
		EXPECT_EQ(1, second.references);
		for (const sn_local *key : {&counted, &lent, &changing})
			EXPECT_EQ(0, sn_local_set(key, nullptr));
	});
}

TEST_F(Local, InheritedByEachWayToStartATask)
{
	test::run([] {
		Counted value;
		std::atomic<int> inherited{0}, started{0};
		const auto look = [&] {
			inherited += sn_local_get(&counted) == &value;
			started++;
			return 0;
		};
		const auto wait_for = [&](int n) {
			EXPECT_TRUE(test::eventually([&] { return started == n; }));
		};
		auto body = [](void *arg) {
			return (*static_cast<std::remove_const_t<decltype(look)> *>(arg))();
		};
		void *arg = const_cast<void *>(static_cast<const void *>(&look));
		Scope scope;

		EXPECT_EQ(0, sn_local_set(&counted, &value));
		EXPECT_EQ(0, sn_go(body, arg));
		Task(look).join();
		scope.go(look);
		EXPECT_EQ(0, sn_scope_spawn(scope.get(), body, arg, nullptr));
		wait_for(4);
		EXPECT_EQ(4, inherited);

		sn_alarm alarm = {};
		EXPECT_EQ(0, sn_alarm_start(&alarm, sn_now(), 0, body, arg));
		wait_for(5);
		std::thread thread([&] {
			EXPECT_EQ(0, sn_go(body, arg));
			scope.go(look);
		});
		sn_enter_blocking();
		thread.join();
		sn_exit_blocking();
		wait_for(7);
		EXPECT_EQ(4, inherited) << "alarms and threads give nothing";
		EXPECT_EQ(0, scope.close());
		EXPECT_TRUE(test::all_ended());
		EXPECT_EQ(1, value.references);
		EXPECT_EQ(0, sn_local_set(&counted, nullptr));
	});
}

TEST_F(Local, InheritedOnesAreDestroyedLast)
{
	static sn_local inherited = {note, [](void *value) { return value; }, SN_LOCAL_INHERITED};
	static sn_local too = {note, [](void *value) { return value; }, SN_LOCAL_INHERITED};

	test::run(1, [] {
		log_of_calls = "";
		EXPECT_EQ(0, sn_local_set(&inherited, text("1")));
		EXPECT_EQ(0, sn_local_set(&too, text("2")));
		Task([] { EXPECT_EQ(0, sn_local_set(&a_key, text("a"))); }).join();
		EXPECT_EQ("a21", log_of_calls);
		EXPECT_EQ(0, sn_local_set(&inherited, nullptr));
		EXPECT_EQ(0, sn_local_set(&too, nullptr));
	});
}

int nothing(void *)
{
	return 0;
}

TEST_F(Local, ATaskThatIsNotStartedLeavesNothing)
{
	test::run(1, [] {
		Counted value;
		sn_task_attr wrong = {};
		sn_task *task = nullptr;
		Scope scope;
		sn_scope *closed = scope.get();

		wrong.flags = ~0u;
		EXPECT_EQ(0, sn_local_set(&counted, &value));
		EXPECT_EQ(-EINVAL, sn_spawn(&task, nothing, nullptr, &wrong));
		EXPECT_EQ(-EINVAL, sn_scope_spawn(closed, nothing, nullptr, &wrong));
		scope.cancel();
		EXPECT_EQ(-ECANCELED, sn_scope_go(closed, nothing, nullptr));
		scope.close();
		EXPECT_EQ(-ESRCH, sn_scope_go(closed, nothing, nullptr));
		EXPECT_EQ(-EINVAL, sn_scope_go(nullptr, nothing, nullptr));
		EXPECT_EQ(1, value.references);
		EXPECT_EQ(0, sn_local_set(&counted, nullptr));
	});
}

TEST_F(Local, InheritingOutOfMemory)
{
	static sn_local failing = {nullptr, [](void *) -> void * { return nullptr; },
				   SN_LOCAL_INHERITED};

	test::run(1, [] {
		Counted value, second;

		EXPECT_EQ(0, sn_local_set(&lent, &second));
		EXPECT_EQ(0, sn_local_set(&counted, &value));
		for (int after : {0, 1}) {
			fail_after = after;
			EXPECT_EQ(-ENOMEM, sn_go(nothing, nullptr));
			fail_after = -1;
			EXPECT_EQ(1, value.references) << "not copied at all";
		}
		// The first value that was set is copied last, so the others have been copied by
		// then, and are given back.
		EXPECT_EQ(0, sn_local_set(&counted, nullptr));
		EXPECT_EQ(0, sn_local_set(&failing, &value));
		EXPECT_EQ(0, sn_local_set(&counted, &value));
		Scope scope;
		EXPECT_EQ(-ENOMEM, sn_go(nothing, nullptr));
		EXPECT_EQ(-ENOMEM, sn_scope_go(scope.get(), nothing, nullptr));
		EXPECT_EQ(0, scope.close());
		EXPECT_EQ(1, value.references);
		EXPECT_EQ(1, second.references);
		for (sn_local *key : {&lent, &counted, &failing})
			EXPECT_EQ(0, sn_local_set(key, nullptr));
	});
}

// A copy function is code of the parent: it may park, set values, and start tasks.
void *copy_and_park(void *value)
{
	EXPECT_EQ(0, sn_sleep(ms));
	EXPECT_EQ(0, sn_local_set(&plain, sn_local_get(&plain) ? nullptr : value));
	return retain(value);
}

TEST_F(Local, CopyFunctionsMayDoWhatATaskMay)
{
	static sn_local key = {drop, copy_and_park, SN_LOCAL_INHERITED};

	test::run([] {
		Counted value;

		EXPECT_EQ(0, sn_local_set(&key, &value));
		for (int i = 0; i < 6; i++)
			Task([&] { EXPECT_EQ(&value, sn_local_get(&key)); }).join();
		EXPECT_EQ(1, value.references);
		EXPECT_EQ(0, sn_local_set(&key, nullptr));
	});
}

// ---- the end of a run, and fork() ----

TEST_F(Local, AbandonedTasksDestroyNothing)
{
	Counted values[10];

	test::run([&] {
		std::atomic<int> set{0};

		for (Counted &value : values) {
			Task([&] {
				EXPECT_EQ(0, sn_local_set(&lent, &value));
				EXPECT_EQ(0, sn_local_set(&plain, &value));
				set++;
				sn_sleep(forever);
			}).detach();
		}
		EXPECT_TRUE(test::eventually([&] { return set == 10; }));
	});
	for (Counted &value : values)
		EXPECT_EQ(1, value.references);
}

TEST_F(LocalDeathTest, AChildOfForkHasNone)
{
	test::run(2, [] {
		Counted value;

		EXPECT_EQ(0, sn_local_set(&counted, &value));
		const pid_t pid = fork();
		if (pid == 0) {
			CHILD_CHECK(sn_local_get(&counted) == nullptr);
			CHILD_CHECK(sn_local_set(&counted, &value) == -ENOTSUP);
			_exit(0);
		}
		int status = -1;
		sn_enter_blocking();
		EXPECT_EQ(pid, waitpid(pid, &status, 0));
		sn_exit_blocking();
		EXPECT_EQ(0, status);
		EXPECT_EQ(&value, sn_local_get(&counted));
		// Removed, because otherwise its destructor would run when this function has
		// returned.
		EXPECT_EQ(0, sn_local_set(&counted, nullptr));
	});
}

void fail_in_child(void *)
{
	_exit(99);
}

TEST_F(LocalDeathTest, AChildOfForkDestroysNothing)
{
	static sn_local key = {fail_in_child, nullptr, 0};

	test::run(2, [] {
		pid_t pid = 0;
		Task task([&] {
			char value = 0;

			EXPECT_EQ(0, sn_local_set(&key, &value));
			pid = fork();
			if (pid == 0) {
				// The child exits as if by exit(3). LeakSanitizer would then check
				// it, and miss the stacks of threads that do not exist in the
				// child.
				atexit([] { _exit(7); });
				return 3;
			}
			EXPECT_EQ(0, sn_local_set(&key, nullptr));
			return 0;
		});
		task.join();
		int status = -1;
		sn_enter_blocking();
		EXPECT_EQ(pid, waitpid(pid, &status, 0));
		sn_exit_blocking();
		EXPECT_TRUE(WIFEXITED(status));
		EXPECT_EQ(7, WEXITSTATUS(status));
	});
}

// ---- many ----

int grow(uint64_t seed, int depth)
{
	test::Random random(seed);
	Counted mine;
	std::vector<Task> children;

	if (random.below(2)) {
		void *inherited = sn_local_get(&counted);

		EXPECT_EQ(0, sn_local_set(&counted, &mine));
		if (inherited)
			drop(inherited);
	}
	for (uint64_t i = 0; depth > 0 && i < 3; i++) {
		const uint64_t next = random.next();

		children.emplace_back([=] { return grow(next, depth - 1); });
		sn_yield();
	}
	join_all(children);
	if (sn_local_get(&counted) == &mine) {
		EXPECT_EQ(1, mine.references);
		EXPECT_EQ(0, sn_local_set(&counted, nullptr));
	}
	return 0;
}

TEST_F(Local, ManyTasksInheritAndReplace)
{
	test::Environment race("SENNIT_RACE", "1");
	test::Random random;

	test::run([&] {
		for (int i = 0; i < test::scaled(20); i++)
			grow(random.next(), 5);
		EXPECT_TRUE(test::all_ended());
	});
}

} // namespace
