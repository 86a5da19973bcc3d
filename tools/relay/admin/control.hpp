/* SPDX-License-Identifier: MIT */
/*
 * The actions that the control server (admin.hpp) offers. Any task may call them, at any time. All
 * of them may park, because one change is made at a time: a call waits for a reload or a handover
 * that is under way. If the client has left when the wait is over, nothing changes, because the
 * client has given the change up.
 */
#ifndef RELAY_CONTROL_HPP
#define RELAY_CONTROL_HPP

#include "config/edit.hpp"
#include "stats/session_filter.hpp"
#include "stats/snapshot.hpp"
#include "wire/http.hpp"

#include <optional>
#include <string>

namespace relay
{

/* A client of the control server. */
class requester
{
public:
	/* Whether it has closed its connection, so that it would not learn of a result; over TCP
	 * also whether it has ended no more than its own stream, which looks the same. */
	virtual bool has_left() const noexcept = 0;

protected:
	~requester() = default;
};

class controller
{
public:
	struct outcome {
		int status = 200; /* the HTTP status */
		std::string text; /* for people: whole lines */
	};

	/* Returns the configuration in effect, as TOML; 409 if it was not read from a file. */
	virtual outcome configuration() = 0;

	/* Changes a backend. Status 200 means that the change has taken effect; with any other
	 * status nothing has changed. */
	virtual outcome edit(const backend_edit &what, const requester &by) = 0;

	/* Does what SIGHUP does: reads the file again, and reopens the access log. Changes made by
	 * edit() are lost. */
	virtual outcome reload(const requester &by) = 0;

	/* Resets the sessions that are connected to a backend and match the filter. */
	virtual outcome kill(const session_filter &which) = 0;

protected:
	~controller() = default;
};

/* Performs the request; returns nothing if its path is not one of control, so that others may
 * answer it. */
std::optional<controller::outcome> answer_control(controller &to, const snapshot_source &source,
						  const http_request &request, const requester &by);

} // namespace relay

#endif
