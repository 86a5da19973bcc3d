/* SPDX-License-Identifier: MIT */
#include "json.hpp"

#include "units.hpp"

namespace tracing
{

/* Writes what separates a value, or its key, from the value before. */
void json::separate()
{
	if (named_) {
		named_ = false;
		return;
	}
	if (!first_)
		text_ += ',';
	if (depth_ > 0)
		text_ += '\n' + std::string(depth_, ' ');
	first_ = false;
}

json &json::open(char bracket)
{
	separate();
	text_ += bracket;
	depth_++;
	first_ = true;
	return *this;
}

json &json::close(char bracket)
{
	depth_--;
	if (!first_)
		text_ += '\n' + std::string(depth_, ' ');
	text_ += bracket;
	first_ = false;
	return *this;
}

json &json::put(std::string_view what)
{
	separate();
	text_ += what;
	return *this;
}

json &json::value(std::string_view text)
{
	std::string quoted = "\"";

	for (const char c : clean(text)) {
		if (c == '"' || c == '\\')
			quoted += '\\';
		quoted += c;
	}
	return put(quoted + '"');
}

json &json::value(bool is)
{
	return put(is ? "true" : "false");
}

json &json::name(std::string_view key)
{
	value(key);
	text_ += ": ";
	named_ = true;
	return *this;
}

} // namespace tracing
