/* SPDX-License-Identifier: MIT */
/*
 * Look-ups of the names of backends. A task that has asked for one need not wait for its end.
 *
 * A look-up cannot be interrupted: it ends when the system's resolver gives up. The library has 256
 * threads for them (sennit/resolve.h), which a reload needs too when it opens listeners by name. So
 * at most look_ups_at_once of the backends' names are looked up at a time, and others wait for
 * their turn. A place is taken until the look-up has really ended, whether or not anybody still
 * waits for it. Whoever asks, a name is looked up once at a time.
 */
#ifndef RELAY_LOOK_UP_HPP
#define RELAY_LOOK_UP_HPP

#include "backends/names.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace relay
{

/* Half of the library's threads. */
inline constexpr int look_ups_at_once = 128;

class look_up
{
public:
	/*
	 * Joins the look-up of that address ("host:port" or "srv:name") that is under way or waits
	 * for its turn, or asks for one. A queued look-up with no holders left is dropped when its
	 * turn comes. In a task. Throws when no task can be started.
	 */
	static std::shared_ptr<look_up> of(const std::string &address);

	/* Whether one is under way, or waits for its turn. Any thread; does not park. */
	static bool any();

	/* For of(). */
	explicit look_up(std::string address) : address_(std::move(address)) {}

	/* Whether it ends before that time. Throws when the scope is cancelled. May park. */
	bool ends_by(sn::deadline until) { return over_.wait_until(until); }

	/* The result, once the look-up has ended. */
	const sn::result<found_endpoints> &found() const { return *found_; }

	/* Why the result is incomplete: the error of a service's host that could not be looked up
	 * now. Hosts that do not exist are left out without an error. */
	const std::error_code &missing() const { return missing_; }

private:
	/* The look-ups that are under way or wait, and their places. */
	struct table;

	static void run(std::shared_ptr<look_up> self) noexcept;

	const std::string address_;
	std::optional<sn::result<found_endpoints>> found_;
	std::error_code missing_;
	sn::wait_group over_;
};

} // namespace relay

#endif
