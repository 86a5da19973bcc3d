/* SPDX-License-Identifier: MIT */
/*
 * Lists that are in files of their own, because programs write them or because they are long: one
 * entry per line; what follows a '#' is a comment. They are read together with the configuration,
 * and again when one of them has changed (list_files.hpp). A list with a mistake makes the
 * configuration invalid; the error has the place of the key, and then the file and the line of the
 * list.
 */
#ifndef RELAY_CONFIG_LISTS_HPP
#define RELAY_CONFIG_LISTS_HPP

#include "base/ip.hpp"
#include "config/config_section.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace relay
{

/* Takes an entry, without spaces around it. Returns what is wrong with it, if anything. */
using entry_reader = std::function<std::optional<std::string>(std::string_view entry)>;

/*
 * Reads the list that `node`, the value of `key`, names. what: the kind of its entries, such as
 * "network", of which there must be at least one; null: the list may be empty. Blocks on the file
 * system.
 */
list_file read_list(section &in, const toml::node &node, std::string_view key,
		    const std::string &file, const char *what, const entry_reader &read);

/* Reads the networks in the file that the key names, and adds the file to `files`. */
void read_network_file(section &in, std::string_view key, const char *what, ip_networks &into,
		       std::vector<list_file> &files);

} // namespace relay

#endif
