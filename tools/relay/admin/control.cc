/* SPDX-License-Identifier: MIT */
#include "admin/control.hpp"

#include "base/text.hpp"
#include "config/config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace relay
{
namespace
{

/* A request that cannot be understood, and why. */
struct bad_request {
	std::string text;
};

int hex(char of) noexcept
{
	constexpr std::string_view digits = "0123456789abcdef";
	const auto at =
		digits.find(of >= 'A' && of <= 'F' ? static_cast<char>(of - 'A' + 'a') : of);
	return at == digits.npos ? -1 : static_cast<int>(at);
}

std::string decode(std::string_view text)
{
	std::string out;
	for (std::size_t i = 0; i < text.size(); i++) {
		if (text[i] != '%') {
			out += text[i] == '+' ? ' ' : text[i];
			continue;
		}
		const int high = i + 2 < text.size() ? hex(text[i + 1]) : -1;
		const int low = i + 2 < text.size() ? hex(text[i + 2]) : -1;
		if (high < 0 || low < 0)
			throw bad_request{"a '%' of the query is not followed by two digits"};
		out += static_cast<char>(high * 16 + low);
		i += 2;
	}
	return out;
}

/* The parameters of a request. They are taken one by one, and finish() refuses the rest. */
class parameters
{
public:
	explicit parameters(std::string_view query)
	{
		while (!query.empty()) {
			const auto end = std::min(query.find('&'), query.size());
			const auto each = query.substr(0, end);
			const auto mark = std::min(each.find('='), each.size());
			const std::string name = decode(each.substr(0, mark));
			const auto value = each.substr(std::min(mark + 1, each.size()));
			/* A script whose variable is not set must not get more than it asks for. */
			if (value.empty())
				throw bad_request{name + " is empty"};
			if (!left_.emplace(name, decode(value)).second)
				throw bad_request{name + " is given twice"};
			query.remove_prefix(std::min(end + 1, query.size()));
		}
	}

	std::string text(const std::string &name)
	{
		auto found = left_.extract(name);
		return found ? std::move(found.mapped()) : "";
	}

	std::string required(const std::string &name)
	{
		auto value = text(name);
		if (value.empty())
			throw bad_request{name + " is missing"};
		return value;
	}

	template <class Number>
	std::optional<Number> number(const std::string &name, Number most)
	{
		const auto value = text(name);
		if (value.empty())
			return std::nullopt;
		Number read = 0;
		const auto *const end = value.data() + value.size();
		const auto [rest, err] = std::from_chars(value.data(), end, read);
		if (err != std::errc{} || rest != end || read > most)
			throw bad_request{name + ": \"" + value + "\" is not a number from 0 to " +
					  std::to_string(most)};
		return read;
	}

	void finish() const
	{
		if (!left_.empty())
			throw bad_request{left_.begin()->first +
					  " is not a parameter of this action"};
	}

private:
	std::map<std::string, std::string> left_;
};

/* A request, and who has made it. */
struct asked_for {
	parameters with;
	const requester &by;
};

controller::outcome edit(controller &to, asked_for &what, backend_edit::kind kind_of)
{
	using kind = backend_edit::kind;
	constexpr std::uint64_t connections = 1'000'000'000;

	parameters &with = what.with;
	backend_edit made{.what = kind_of,
			  .group = with.required("group"),
			  .backend = with.required("backend")};
	if (kind_of == kind::set_weight || kind_of == kind::add)
		made.weight = with.number<std::uint32_t>("weight", weight_max);
	if (kind_of == kind::set_weight && !made.weight)
		throw bad_request{"weight is missing"};
	if (kind_of == kind::add) {
		made.priority = with.number<std::uint32_t>("priority", priority_max);
		made.max_connections = with.number("max_connections", connections);
	}
	with.finish();
	return to.edit(made, what.by);
}

controller::outcome kill(controller &to, asked_for &what)
{
	parameters &with = what.with;
	session_filter which{.listener = with.text("listener"),
			     .group = with.text("group"),
			     .backend = with.text("backend"),
			     .endpoint = with.text("endpoint")};
	const auto client = with.text("client");
	const bool all = with.text("all") == "1";
	with.finish();
	const bool is_any = which.listener.empty() && which.group.empty() &&
			    which.backend.empty() && which.endpoint.empty() && client.empty();
	/* A text that names no client, such as "[]", must not become a filter that all fit. */
	if (!client.empty() && !which.name_client(client))
		throw bad_request{"client: \"" + client +
				  "\" is not an IP address without a port, or its interface does "
				  "not exist"};
	if (is_any != all)
		throw bad_request{all ? "all=1 excludes all other parameters"
				      : "expected listener, group, backend, endpoint or client, or "
					"all=1"};
	return to.kill(which);
}

/* Columns of text, aligned. They are for a terminal, which acts on control characters. */
std::string align(std::vector<std::vector<std::string>> rows)
{
	for (auto &row : rows)
		for (auto &each : row)
			each = to_printable(each);
	std::vector<std::size_t> widths(rows.front().size());
	for (const auto &row : rows)
		for (std::size_t i = 0; i < row.size(); i++)
			widths[i] = std::max(widths[i], row[i].size());
	std::string out;
	for (const auto &row : rows) {
		for (std::size_t i = 0; i < row.size(); i++) {
			out += row[i];
			if (i + 1 < row.size())
				out.append(widths[i] - row[i].size() + 2, ' ');
		}
		out.erase(out.find_last_not_of(' ') + 1) += '\n';
	}
	return out;
}

std::string to_table(const snapshot &now)
{
	std::vector<std::vector<std::string>> rows{{"GROUP", "BACKEND", "STATE", "WEIGHT", "OPEN",
						    "LIMIT", "CONNECTED", "FAILED", "LAST ERROR"}};
	const auto add = [&rows](const std::string &group, const std::string &name,
				 const endpoint_snapshot &each) {
		const auto &agent = each.agent;
		std::string weight = std::to_string(each.weight);
		if (agent.is_there && agent.percent != 100)
			weight += " x " + std::to_string(agent.percent) + '%';
		std::string wrong = each.last_error;
		if (!agent.words.empty())
			wrong += (wrong.empty() ? "" : "; ") + agent.words;
		rows.push_back(
			{group, name, to_string(each.state), weight, std::to_string(each.active),
			 each.limit ? std::to_string(each.limit) : "-",
			 std::to_string(each.connected), std::to_string(each.failures), wrong});
	};
	for (const auto &each : now.backends) {
		add(each.route, each.address, each);
		for (const auto &one : each.endpoints)
			add("", "- " + one.address, one);
	}
	return align(std::move(rows));
}

/* "GROUP BACKEND" for each backend, for the completion of a shell. */
std::string to_names(const snapshot &now)
{
	std::string out;
	for (const auto &each : now.backends)
		out += each.route + ' ' + each.address + '\n';
	return out;
}

struct action {
	std::string_view path;
	controller::outcome (*perform)(controller &to, asked_for &what);
};

template <backend_edit::kind Kind>
controller::outcome edit_as(controller &to, asked_for &what)
{
	return edit(to, what, Kind);
}

constexpr std::array actions = {
	action{"/backends/weight", edit_as<backend_edit::kind::set_weight>},
	action{"/backends/drain", edit_as<backend_edit::kind::drain>},
	action{"/backends/enable", edit_as<backend_edit::kind::enable>},
	action{"/backends/add", edit_as<backend_edit::kind::add>},
	action{"/backends/remove", edit_as<backend_edit::kind::remove>},
	action{"/connections/kill", kill},
	action{"/reload",
	       [](controller &to, asked_for &what) {
		       what.with.finish();
		       return to.reload(what.by);
	       }},
};

} // namespace

std::optional<controller::outcome> answer_control(controller &to, const snapshot_source &source,
						  const http_request &request, const requester &by)
try {
	const bool reads = request.method == "GET" || request.method == "HEAD";
	if (reads && request.path == "/config")
		return to.configuration();
	if (reads && request.path == "/backends")
		return controller::outcome{.text = to_table(source.read())};
	if (reads && request.path == "/names")
		return controller::outcome{.text = to_names(source.read())};
	const auto found = std::ranges::find(actions, request.path, &action::path);
	if (found == actions.end())
		return std::nullopt;
	/* A link or an image in a web page must not be able to cause a change. */
	if (request.method != "POST")
		return controller::outcome{405, "expected POST\n"};
	asked_for what{parameters(request.query), by};
	return found->perform(to, what);
} catch (const bad_request &error) {
	return controller::outcome{400, error.text + '\n'};
}

} // namespace relay
