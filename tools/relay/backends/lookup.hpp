/* SPDX-License-Identifier: MIT */
/*
 * Lookups of the names of backends. A task that has asked for a lookup need not wait for its end.
 *
 * A lookup cannot be interrupted: it ends when the system's resolver gives up. The library has 256
 * threads for lookups (sennit/resolve.h), and a reload needs some of them to open listeners by
 * name. At most lookups_at_once of the backends' names are therefore looked up at a time, and
 * others wait for their turn. A lookup keeps its place until it has really ended, whether or not
 * anybody still waits for it. All who ask for a name share one lookup of it.
 */
#ifndef RELAY_LOOKUP_HPP
#define RELAY_LOOKUP_HPP

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
inline constexpr int lookups_at_once = 128;

class lookup
{
public:
	/*
	 * Returns the lookup of that address ("host:port" or "srv:name") that is under way or
	 * queued, or queues a new one. A queued lookup with no holders left is dropped when its
	 * turn comes. Call it in a task. Throws if no task can be started.
	 */
	static std::shared_ptr<lookup> of(const std::string &address);

	/* Whether any lookup is under way or queued. Any thread may call; does not park. */
	static bool any();

	/* For of() only. */
	explicit lookup(std::string address) : address_(std::move(address)) {}

	/* Waits for the lookup's end; false if the deadline comes first. Throws when the scope
	 * is cancelled. May park. */
	bool ends_by(sn::deadline until) { return over_.wait_until(until); }

	/* The result, once the lookup has ended. */
	const sn::result<found_endpoints> &found() const { return *found_; }

	/* Why the result is incomplete: the error of a host of the service whose lookup has
	 * failed for now. Hosts that do not exist are left out without an error. */
	const std::error_code &missing() const { return missing_; }

private:
	/* The lookups that are under way or queued, and the number of free places. */
	struct table;

	static void run(std::shared_ptr<lookup> self) noexcept;

	const std::string address_;
	std::optional<sn::result<found_endpoints>> found_;
	std::error_code missing_;
	sn::wait_group over_;
};

} // namespace relay

#endif
