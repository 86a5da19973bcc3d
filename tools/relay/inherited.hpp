/* SPDX-License-Identifier: MIT */
/*
 * Listening descriptors that this process was started with: by systemd, which listens before the
 * relay has started (sd_listen_fds(3)'s protocol: LISTEN_PID, LISTEN_FDS), or by a former process of
 * the relay that hands over (handover.hpp).
 *
 * They are given to the listeners that ask for the address that they are bound to; from a former
 * process, for the address as it was written. What nobody asks for is closed, and that is reported,
 * as clients would wait in its queue for ever.
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

/* Of a listener that hands its descriptor over. */
struct handed_listener {
	int fd = -1;
	std::string name;    /* as configured; empty: none */
	std::string address; /* as configured */
};

/* The variable in which a former process tells what it hands over, and its text. */
inline constexpr const char *handover_variable = "SENNIT_RELAY_HANDOVER";
std::string to_handover(int ready_fd, const std::vector<handed_listener> &listeners);

/* What the admin server's listener is called there, which no listener of the configuration is. */
inline constexpr std::string_view admin_listener_name{"\0admin", 6};

class inherited
{
public:
	/* Takes them over, and the variables out of the environment. Before there are threads. */
	void take_over();

	/* The descriptor of that listener, which is the caller's; -1: there is none. */
	int take(std::string_view name, std::string_view address);

	/* Everybody has taken what is his: closes the rest. Tells a former process that this one
	 * serves, so that it ends. */
	void done();

private:
	struct entry {
		int fd;
		std::string name;
		std::string address; /* as a former process had it written; empty: systemd's */
		std::optional<ip_end> bound; /* systemd's */
	};

	void add_from_manager();
	void add_from_former(std::string_view text);

	std::vector<entry> entries_;
	int ready_ = -1;
};

} // namespace relay

#endif
