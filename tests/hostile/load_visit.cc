// SPDX-License-Identifier: MIT
//
// Visitors of all tasks that do everything that their header allows: they make calls, park and
// block. Some tasks and one plain thread visit until the run is over, so that it ends in the middle
// of a visit. The threads that tasks have used have slow destructors.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <sennit/scan.h>

#include "hostile/loads.hpp"

namespace hostile
{
namespace
{

constexpr useconds_t destructor_us = 50000;

// Leaves a destructor on the caller's thread, which retires after some time, or ends with the run.
void leave_a_slow_destructor()
{
	static const pthread_key_t key = [] {
		pthread_key_t made;

		if (pthread_key_create(&made, [](void *) { usleep(destructor_us); }) != 0)
			fail("visitors: pthread_key_create()");
		return made;
	}();
	static char value;

	(void)pthread_setspecific(key, &value); // without memory there is no destructor
}

class Visitors : public Work
{
public:
	void begin(Phase &phase) override
	{
		for (int i = 0; i < visitors; i++)
			phase.go_surely(LOAD_VISITORS, [&phase, seed = phase.random.next()] {
				Random random(seed);

				while (!phase.stopping()) {
					walk(&random);
					leave_a_slow_destructor();
					usleep(200);
					sn_sleep(random.between(0, 5 * ms));
				}
			});
		if (life_ != board->lives) {
			life_ = board->lives;
			strays_ = 0;
		}
		// No phase waits for this task: the run abandons it.
		if (sn_go(
			    [](void *) {
				    for (;;) {
					    walk(nullptr);
					    if (sn_sleep(2 * ms) < 0)
						    return 0;
				    }
			    },
			    nullptr) == 0)
			strays_++;
		static std::atomic<bool> started = false;

		start_outside(started, visit_from_outside);
	}

	int64_t queue() const override { return (visitors + strays_) * slice; }

private:
	static constexpr int visitors = 2;

	// Called in a task, which may be abandoned in any of these calls.
	static int visit(const struct sn_task_info *info, void *arg)
	{
		auto *random = static_cast<Random *>(arg);

		if (info->id == 0)
			fail("visitors: a task without a number");
		if (!random || random->one_in(64))
			sn_yield();
		else if (random->one_in(256))
			sn_sleep(random->between(0, ms));
		else if (random->one_in(256))
			usleep(100);
		return 0;
	}

	static void walk(Random *random)
	{
		const int result = sn_tasks_each(visit, random);

		if (result < 0)
			fail("visitors: sn_tasks_each() returned %d", result);
		done(LOAD_VISITORS);
	}

	// The run may end during the visit. The thread is then left behind, or learns that the run
	// has ended.
	static void visit_from_outside()
	{
		Random random(2);

		prctl(PR_SET_NAME, "visitor");
		for (;;) {
			const int result = sn_tasks_each(
				[](const struct sn_task_info *, void *arg) {
					auto *its = static_cast<Random *>(arg);

					if (its->one_in(64))
						usleep((useconds_t)its->between(0, 2000));
					return 0;
				},
				&random);

			if (result < 0 && result != -ESRCH)
				fail("visitors: sn_tasks_each() returned %d", result);
			usleep(500);
		}
	}

	static uint64_t life_;
	static int strays_; // belongs to that run
};

uint64_t Visitors::life_;
int Visitors::strays_;

} // namespace

std::unique_ptr<Work> make_visitors()
{
	return std::make_unique<Visitors>();
}

} // namespace hostile
