/* SPDX-License-Identifier: MIT */
/*
 * Problems of a valid configuration that are found outside of it: in the files that it names. They
 * get the place of the key, as all errors of the configuration have it.
 *
 * The text is parsed again to find the place, because problems are rare and places would take
 * memory in every configuration in effect.
 */
#ifndef RELAY_CONFIG_PLACES_HPP
#define RELAY_CONFIG_PLACES_HPP

#include "config/config.hpp"

#include <string>
#include <vector>

namespace relay
{

/*
 * "FILE:LINE:COLUMN: KEY: ..." for a problem that begins with its key, such as
 * "listeners.web.tls.certificate[1]: ...". The place is that of the innermost table or value on the
 * way to the key that the text has, because the key may have its default. Without a text or such a
 * key it is "FILE: KEY: ...".
 */
std::string with_place(const config &of, const std::string &file, const std::string &problem);

/* What is wrong with the file of the access log and that of the control server's token, one line
 * each with its place. Opens no log. Blocks on the file system, so do not call it in a task. */
std::vector<std::string> file_problems(const config &of, const std::string &file);

} // namespace relay

#endif
