/* SPDX-License-Identifier: MIT */
/* Replaces regex_pcre2.cc in a build without PCRE2. */
#include "base/regex.hpp"

namespace relay
{

const bool regex::is_built = false;

std::shared_ptr<const regex> regex::compile(std::string_view, std::string &why)
{
	why = "is a regular expression, but this sennit-relay is built without PCRE2; expected no "
	      "such key, or one that is built with it";
	return nullptr;
}

} // namespace relay
