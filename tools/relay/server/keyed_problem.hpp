/* SPDX-License-Identifier: MIT */
/*
 * Problems of what a configuration names, such as an address that is taken or a file that cannot be
 * read, with the place of the key as --check reports it (config_places.hpp).
 */
#ifndef RELAY_KEYED_PROBLEM_HPP
#define RELAY_KEYED_PROBLEM_HPP

#include "config/config.hpp"

#include <string>

namespace relay
{

/* "FILE:LINE:COLUMN: KEY: PROBLEM", or the problem alone if the configuration is not from a file
 * (then file is empty), or if a shortage keeps the place from being found. May park. */
std::string with_key(const std::string &file, const config &of, const std::string &key,
		     std::string problem);

} // namespace relay

#endif
