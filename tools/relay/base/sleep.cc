/* SPDX-License-Identifier: MIT */
#include "base/sleep.hpp"

#include "base/untimed.hpp"

#include <cerrno>
#include <system_error>

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

bool ends_by(sn::task<void> &which, sn::deadline until)
{
	for (;; sleep_fully(untimed_wait::tick))
		try {
			return which.wait_until(until);
		} catch (const std::system_error &error) {
			if (error.code() != std::errc::not_enough_memory)
				throw;
			if (sn::now() >= until)
				return false;
		}
}

} // namespace relay
