/* SPDX-License-Identifier: MIT */
/*
 * Checks how an address is written, without looking anything up: a mistake on the command line is
 * told before anything is opened, and a name that does not resolve is told apart from it.
 */
#ifndef RELAY_ADDRESS_HPP
#define RELAY_ADDRESS_HPP

#include <optional>
#include <string>
#include <string_view>

namespace relay
{

enum class address_use {
	listen, /* no host means every address, port 0 any free one */
	connect,
};

/* Nothing when the address is well formed; otherwise what is wrong with it and what is expected. */
std::optional<std::string> address_problem(std::string_view address, address_use use);

} // namespace relay

#endif
