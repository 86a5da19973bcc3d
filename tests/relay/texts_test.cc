/* SPDX-License-Identifier: MIT */
/* Labels: memory */
/*
 * A short form of fuzzing for the relay's configuration, for requests to its control server, for
 * the answers of agents and web servers, and for regular expressions (`make fuzz` is the long one):
 * it runs over the seeds, and over mutations of them by a generator with a seed.
 */
#include "mutations.hpp"
#include "relay/agent_properties.hpp"
#include "relay/config_properties.hpp"
#include "relay/control_properties.hpp"
#include "relay/http_answer_properties.hpp"
#include "relay/regex_properties.hpp"

#include <cstddef>
#include <gtest/gtest.h>
#include <string>
#include <string_view>

namespace
{

using namespace std::string_view_literals;

/* Texts have other kinds of mistakes than binary formats: missing or extra quotes and brackets, and
 * parts of one text in another. */
template <class Check>
void mutate(const char *of, Check check)
{
	constexpr auto marks = "\"'[]{}=.,#\\\n %&?\0\x7f"sv;
	const auto from = mutations::seeds(of);
	const auto change = [&](std::string &text, std::size_t at, mutations::dice &below) {
		const auto &other = from[below(from.size())];
		switch (below(5)) {
		case 0:
			text[at] = marks[below(marks.size())];
			break;
		case 1:
			text[at] = static_cast<char>(below(256));
			break;
		case 2:
			text.erase(at, 1 + below(20));
			break;
		case 3:
			text.insert(at, other.substr(below(other.size()), 1 + below(30)));
			break;
		case 4:
			text.insert(at, "\xc3\xa9");
			break;
		}
	};
	mutations::check_all(from, 2000, 3, change, check);
}

TEST(Texts, ConfigurationHoldsItsProperties)
{
	mutate("config", [](const auto &text) { properties::config_text(text); });
}

TEST(Texts, AnswersOfAgentsHoldTheirProperties)
{
	mutate("agent_answer", [](const auto &text) { properties::agent_answer(text); });
}

TEST(Texts, AnswersOfHttpHoldTheirProperties)
{
	mutate("http_answer", [](const auto &text) { properties::http_answer(text); });
}

TEST(Texts, RegularExpressionsHoldTheirProperties)
{
	mutate("regex", [](const auto &text) { properties::regex(text); });
}

TEST(Texts, RequestsHoldTheirProperties)
{
	mutate("control", [](const auto &text) { properties::control(text); });
}

} // namespace
