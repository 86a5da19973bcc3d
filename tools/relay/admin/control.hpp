/* SPDX-License-Identifier: MIT */
/*
 * The actions that the control server (admin.hpp) offers. Any task may call, at any time. All may
 * park: one change is made at a time, and waits for a reload or a handover that is under way.
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

class controller
{
public:
	struct outcome {
		int status = 200; /* of HTTP */
		std::string text; /* for people: whole lines */
	};

	/* The configuration in effect, as TOML; 409 if it does not come from a file. */
	virtual outcome configuration() = 0;

	/* If the status is 200 the change has taken effect; otherwise nothing has changed. */
	virtual outcome edit(const backend_edit &what) = 0;

	/* As SIGHUP does, except that the access log stays open. Changes are lost. */
	virtual outcome reload() = 0;

	/* Resets the sessions that are connected to a backend and match the filter. */
	virtual outcome kill(const session_filter &which) = 0;

protected:
	~controller() = default;
};

/* What the request asks for; nothing if it is not about control, so that others may answer it. */
std::optional<controller::outcome> answer_control(controller &to, const snapshot_source &source,
						  const http_request &request);

} // namespace relay

#endif
