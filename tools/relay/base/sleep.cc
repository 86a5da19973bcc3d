/* SPDX-License-Identifier: MIT */
#include "base/sleep.hpp"

#include "base/untimed.hpp"

#include <cerrno>

namespace relay
{
namespace
{

class untimed_sleep final : public untimed_wait
{
	void park() noexcept override { static_cast<void>(!sn_semaphore_acquire(&woken_)); }
	void wake() noexcept override { sn_semaphore_release(&woken_, 1); }
	bool is_over() noexcept override { return false; }

	sn_semaphore woken_ = SN_SEMAPHORE_INIT(0);
};

} // namespace

void sleep_fully_until(sn::deadline then) noexcept
{
	/* In contrast to a sleep, a wait for a permit that never comes does not block its thread if
	 * there is no memory for a timer. It may ask for one although its time has come. */
	sn_semaphore never = SN_SEMAPHORE_INIT(0);
	while (sn_semaphore_acquire_until(&never, then.time_since_epoch().count()) == -ENOMEM &&
	       sn::now() < then)
		untimed_sleep().wait(then);
}

} // namespace relay
