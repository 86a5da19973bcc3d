/* SPDX-License-Identifier: MIT */
/*
 * Writes JSON. The caller opens and closes objects and arrays in pairs; inside of an object each
 * value has a key. The output is ASCII, whatever the texts are.
 */
#ifndef TRACE_JSON_HPP
#define TRACE_JSON_HPP

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace tracing
{

class json
{
public:
	json &open(char bracket); /* { or [ */
	json &open(std::string_view key, char bracket) { return name(key).open(bracket); }
	json &close(char bracket);

	json &value(std::string_view text);
	json &value(const char *text) { return value(std::string_view(text)); }
	json &value(bool is);
	template <std::integral T>
	json &value(T number)
	{
		return put(std::to_string(number));
	}
	template <class T>
	json &add(std::string_view key, const T &what)
	{
		return name(key).value(what);
	}

	/* The text, with a newline at the end. */
	std::string text() const { return text_ + '\n'; }

private:
	json &name(std::string_view key);
	json &put(std::string_view what);
	void separate();

	std::string text_;
	std::size_t depth_ = 0;
	bool first_ = true;
	bool named_ = false;
};

} // namespace tracing

#endif
