/* SPDX-License-Identifier: MIT */
/* A filter for sessions. A session matches if every field that is not empty matches. */
#ifndef RELAY_SESSION_FILTER_HPP
#define RELAY_SESSION_FILTER_HPP

#include <string>

namespace relay
{

struct session_filter {
	std::string listener; /* its name */
	std::string group;
	std::string backend;  /* as configured */
	std::string endpoint; /* the address that it is connected to */
	std::string client;   /* its address without the port, and without brackets */
};

} // namespace relay

#endif
