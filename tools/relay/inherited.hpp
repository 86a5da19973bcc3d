/* SPDX-License-Identifier: MIT */
/*
 * Listening descriptors that this process was started with: by systemd, which listens before the
 * relay starts (sd_listen_fds(3)'s protocol: LISTEN_PID, LISTEN_FDS), or by a former process of the
 * relay that hands over (handover.hpp).
 *
 * A listener takes the descriptor that is bound to its address; one from a former process is
 * matched by the address as written. A descriptor that no listener takes is closed, and one from
 * systemd is reported, because clients would wait in its backlog for ever.
 */
#ifndef RELAY_INHERITED_HPP
#define RELAY_INHERITED_HPP

#include "ip.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace relay
{

/* A listener whose descriptor is handed over. */
struct handed_listener {
	int fd = -1;
	std::string name;    /* as configured; empty: none */
	std::string address; /* as configured */
};

/* The variable in which a former process lists what it hands over, and its value. */
inline constexpr const char *handover_variable = "SENNIT_RELAY_HANDOVER";
std::string to_handover(int ready_fd, const std::vector<handed_listener> &listeners);

/* The admin server's listener in that list. No listener of the configuration has this name. */
inline constexpr std::string_view admin_listener_name{"\0admin", 6};

class inherited
{
public:
	/* Takes the descriptors over, and removes the variables from the environment. Call it
	 * before there are threads. */
	void take_over();

	/* The descriptor for that listener, now owned by the caller; -1: there is none. */
	int take(std::string_view name, std::string_view address);

	/* Every listener has taken its descriptor: closes the rest. Reports to a former process
	 * that this one serves, so that the former one ends. */
	void done();

private:
	struct entry {
		int fd;
		std::string name;
		std::string address; /* as written, from a former process; empty: from systemd */
		std::optional<ip_end> bound; /* from systemd */
	};

	void add_from_manager();
	void add_from_former(std::string_view text);

	std::vector<entry> entries_;
	int ready_ = -1;
};

} // namespace relay

#endif
