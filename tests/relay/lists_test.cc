/* SPDX-License-Identifier: MIT */
/* Labels: long */
/* Networks and names in files of their own: what the files may contain, and when they are read
 * again. */
#include "base/retries.hpp"
#include "config_case.hpp"

#include "harness.hpp"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <variant>
#include <vector>

using namespace harness;

namespace
{

constexpr const char *groups = "[groups.g]\nbackends = ['h:1']\n[groups.p]\nbackends = ['h:2']\n";

/* A listener that has the key, with the name of a file as its value, at line 4, column 14. */
std::string with(const std::string &key, const std::string &file)
{
	return "[listeners.a]\naddress = ':443'\ngroup = 'g'\n" + key + " = '" + file + "'\n" +
	       groups;
}

std::string with_names(const std::string &file, const std::string &group = "p",
		       const std::string &more = "")
{
	return "[listeners.a]\naddress = ':443'\n" + more + "sni_files = { '" + file + "' = '" +
	       group + "' }\n" + groups;
}

relay::listener_config good(const std::string &text)
{
	return config_case::good(text).listeners.at(0);
}

/* Expects errors that begin with these texts. */
void expect_errors(const std::string &text, const std::vector<std::string> &starts)
{
	config_case::expect_starts(config_case::bad(text), starts);
}

relay::ip_address ip(const std::string &text)
{
	return std::get<relay::ip_network>(relay::ip_network::parse(text)).first();
}

TEST(Lists, HaveAnEntryPerLine)
{
	const file list("# who may come\n\n10.0.0.0/8\r\n  ::1\t# this machine\n#192.168.0.0/16\n"
			"10.0.0.0/8\n172.16.0.1");
	const auto allowing = good(with("allow_file", list.name())).allow;
	for (const auto *in : {"10.1.2.3", "::1", "172.16.0.1"})
		EXPECT_TRUE(contains(allowing, ip(in))) << in;
	for (const auto *out : {"192.168.0.1", "::2", "172.16.0.2", "11.0.0.0"})
		EXPECT_FALSE(contains(allowing, ip(out))) << out;
	EXPECT_TRUE(contains(good(with("deny_file", list.name())).deny, ip("10.1.2.3")));
	/* The file's networks are added to those of the configuration. */
	const auto both = good(with("deny = ['192.0.2.0/24']\ndeny_file", list.name())).deny;
	EXPECT_TRUE(contains(both, ip("192.0.2.7")) && contains(both, ip("::1")));
}

TEST(Lists, OfNamesAreForAGroup)
{
	const file names("www.Example.org\n*.example.org # all others\n");
	const file more("example.net\n");
	const auto a = good(with_names(names.name() + "' = 'g', '" + more.name()));
	ASSERT_EQ(a.sni.size(), 3U);
	EXPECT_EQ(a.sni[0].name, ".example.org");
	EXPECT_EQ(a.sni[1].name, "example.net");
	EXPECT_EQ(a.sni[2].name, "www.example.org");
	EXPECT_EQ(a.sni[0].group, 0U);
	EXPECT_EQ(a.sni[1].group, 1U);
	EXPECT_EQ(a.sni[2].group, 0U);
	EXPECT_EQ(a.group, relay::listener_config::no_group);
	EXPECT_EQ(good(with_names(more.name(), "p", "sni = {'a' = 'g'}\n")).sni.size(), 2U);
}

TEST(Lists, MayBeLong)
{
	std::string networks;
	for (int i = 0; i < 100'000; i++)
		networks += "10." + std::to_string(i >> 16) + '.' + std::to_string(i >> 8 & 255) +
			    '.' + std::to_string(i & 255) + '\n';
	const file list(networks);
	const auto denying = good(with("deny_file", list.name())).deny;
	EXPECT_EQ(denying.size(), 100'000U);
	EXPECT_TRUE(contains(denying, ip("10.0.0.0")) && contains(denying, ip("10.1.134.159")));
	EXPECT_FALSE(contains(denying, ip("10.1.134.160")));
	std::string names;
	for (int i = 0; i < 20'000; i++)
		names += 'a' + std::to_string(i) + ".example.org\n";
	const file long_list(names);
	EXPECT_EQ(good(with_names(long_list.name())).sni.size(), 20'000U);
}

TEST(Lists, SayWhatIsWrong)
{
	const file bad("10.0.0.0/8\n10.0.0.1/8\n\n1.2.3\n");
	const auto at = "f:4:14: listeners.a.allow_file: " + bad.name();
	expect_errors(with("allow_file", bad.name()),
		      {at + ":2: \"10.0.0.1/8\": it has bits beyond its prefix; expected",
		       at + ":4: \"1.2.3\": expected an address or a network"});

	/* An empty list of denied networks denies none; an empty list of allowed ones would be
	 * ambiguous. */
	const file empty("# nobody\n\n");
	EXPECT_TRUE(good(with("deny_file", empty.name())).deny.empty());
	expect_errors(with("allow_file", empty.name()),
		      {"f:4:14: listeners.a.allow_file: " + empty.name() +
		       ": has no network; expected at least one"});
	expect_errors(with_names(empty.name()), {"f:3:"});

	std::string bytes = "\x01\x7f";
	bytes.append(5000, 'x');
	const file binary(bytes);
	expect_errors(with("deny_file", binary.name()),
		      {"f:4:13: listeners.a.deny_file: " + binary.name() + ":1: \"??xxx"});

	std::string many;
	for (int i = 0; i < 1000; i++)
		many += "x\n";
	const file wrong(many);
	auto read = relay::parse_config(with("deny_file", wrong.name()), "f");
	const auto &errors = std::get<relay::config_errors>(read).lines;
	ASSERT_EQ(errors.size(), 11U);
	EXPECT_TRUE(errors.back().ends_with(": 990 further lines are wrong")) << errors.back();

	const file names("a.example\n*.\nB.example\nb.example\na b\n");
	const auto in =
		"f:3:" +
		std::to_string(std::string("sni_files = { '").size() + names.name().size() + 5) +
		": listeners.a.sni_files.\"" + names.name() + "\": " + names.name();
	expect_errors(with_names(names.name()),
		      {in + ":2: \"*.\": expected the name of a server",
		       in + ":4: \"b.example\": "
			    "is already there",
		       in + ":5: \"a b\": expected the name of a server"});
	const file one("a.example\n");
	expect_errors(with_names(one.name(), "nobody"), {"f:3:"});
	expect_errors(with_names(one.name(), "p", "sni = {'A.example' = 'g'}\n"), {"f:4:"});
}

TEST(Lists, HaveToBeFiles)
{
	const folder in;
	const std::string key = "f:4:13: listeners.a.deny_file: ";
	expect_errors(with("deny_file", in / "none"),
		      {key + in / "none" + ": cannot be read: No such file or directory"});
	expect_errors(with("deny_file", in / "."), {key + in / "." + ": is not a regular file"});
	/* Opening the FIFO would wait forever. */
	ASSERT_EQ(mkfifo((in / "fifo").c_str(), 0600), 0);
	expect_errors(with("deny_file", in / "fifo"),
		      {key + in / "fifo" + ": is not a regular file"});
	EXPECT_EQ(unlink((in / "fifo").c_str()), 0);
	expect_errors(with("deny_file", "/dev/zero"), {key + "/dev/zero: is not a regular file"});
	const file large(std::string((16U << 20) + 1, '\n'));
	expect_errors(with("deny_file", large.name()),
		      {key + large.name() + ": is larger than 16 MiB"});
	expect_errors(with("deny_file", ""), {key + "is empty"});
	const std::string start = "[listeners.a]\naddress = ':443'\ngroup = 'g'\n";
	expect_errors(start + "allow_file = 5\ndeny_file = ['x']\nsni_files = 'x'\n" + groups,
		      {"f:4:14: listeners.a.allow_file: is an integer; expected a string",
		       "f:5:13: listeners.a.deny_file: is an array; expected a string",
		       "f:6:13: listeners.a.sni_files: is a string; expected a table"});
	expect_errors(start + "sni_files = {}\n" + groups,
		      {"f:4:13: listeners.a.sni_files: is empty; expected at least one file"});
	const file list("10.0.0.0/8\n");
	expect_errors("[listeners.a]\naddress = 'unix:/run/a'\ngroup = 'g'\ndeny_file = '" +
			      list.name() + "'\n" + groups,
		      {key + "means nothing at a Unix socket"});
}

TEST(Lists, AreReadAgainOnReload)
{
	listener backend;
	const folder in;
	file list("192.0.2.0/24\n");
	configured_relay relay("drain = 0\ncontrol = \"unix:" + in / "ctl" +
			       "\"\n"
			       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
			       "deny_file = \"" +
			       list.name() + "\"\n[groups.g]\nbackends = [\"" + backend.address() +
			       "\"]\n");
	const std::string address = relay.address();
	const auto ctl = [&](std::vector<std::string> arguments) {
		arguments.insert(arguments.begin(), {"ctl", "--at", "unix:" + in / "ctl"});
		return relay_process(arguments).wait();
	};
	const auto is_served = [&] {
		auto client = peer::sending("x", address);
		EXPECT_EQ(backend.accept().receive(1), "x");
	};
	is_served();

	list.write("192.0.2.0/24\n127.0.0.0/8\n");
	ASSERT_TRUE(relay.reload());
	peer::connect(address).receive_end();
	EXPECT_TRUE(eventually([&] { return relay.counter("denied") == 1; }));

	/* The list is a part of the configuration, so the whole configuration stays as it is. */
	list.write("192.0.2.0/24\n127.0.0.0/33\n");
	const auto refused = ctl({"reload"});
	EXPECT_NE(refused.status, 0);
	relay.await_error(list.name() + ":2: ");
	peer::connect(address).receive_end();
	EXPECT_TRUE(eventually([&] { return relay.counter("denied") == 2; }));

	/* A change of another setting is refused, too. */
	const auto drained = ctl({"drain", "g", backend.address()});
	EXPECT_NE(drained.status, 0);
	EXPECT_NE(drained.errors.find(list.name() + ":2: \"127.0.0.0/33\": the prefix is too long"),
		  std::string::npos)
		<< drained.errors;

	list.write("# nobody any more\n");
	EXPECT_EQ(ctl({"reload"}).status, 0);
	is_served();
	EXPECT_EQ(ctl({"drain", "g", backend.address()}).status, 0);
	/* The configuration that ctl prints names the file, and does not include its contents. */
	const auto shown = ctl({"config"}).output;
	EXPECT_NE(shown.find(list.name()), std::string::npos) << shown;
	EXPECT_EQ(shown.find("192.0.2.0"), std::string::npos) << shown;
	EXPECT_EQ(relay.stop().status, 0);
}

std::size_t refusals(const std::string &events)
{
	std::size_t n = 0;
	for (auto at = events.find("lists_not_reread"); at != events.npos;
	     at = events.find("lists_not_reread", at + 1))
		n++;
	return n;
}

TEST(Lists, AreReadAgainWhenTheyChange)
{
	listener backend;
	const folder in;
	const auto write = [&](const std::string &name, const std::string &text) {
		std::ofstream(in / "new") << text;
		ASSERT_EQ(std::rename((in / "new").c_str(), (in / name).c_str()), 0);
	};
	write("deny", "# nobody\n");
	write("allow", "127.0.0.0/8\n");
	const file config("drain = 0\nadmin = \"127.0.0.1:0\"\n"
			  "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
			  "allow_file = \"" +
			  in / "allow" + "\"\ndeny_file = \"" + in / "deny" +
			  "\"\n[groups.g]\nbackends = [\"" + backend.address() + "\"]\n");
	relay_process relay({"--config", config.name()});
	const std::string address = relay.address();
	const auto entries = [&](const std::string &key) {
		return relay.metric("list_entries{listener=\"web\",key=\"" + key +
				    "_file\",file=\"" + in / key + "\"}");
	};
	auto before = peer::sending("x", address);
	auto before_there = backend.accept();
	EXPECT_EQ(before_there.receive(1), "x");
	EXPECT_EQ(entries("deny"), 0U);
	EXPECT_EQ(entries("allow"), 1U);

	/* The file is replaced by a new one. */
	write("deny", "127.0.0.0/8\n192.0.2.0/24\n");
	relay.await_error("lists_reread listener=web key=deny_file file=" + in / "deny" +
			  " entries=2");
	peer::connect(address).receive_end();
	EXPECT_TRUE(eventually([&] { return relay.counter("denied") == 1; }));
	EXPECT_EQ(entries("deny"), 2U);

	/* All files take effect or none does: the other file is correct, and would admit every
	 * client. */
	write("allow", "127.0.0.0/8\n127.0.0.0/33\n");
	relay.await_error("lists_not_reread error=\"" + config.name() + ":6:14: listeners.web." +
			  "allow_file: " + in / "allow" + ":2: ");
	write("deny", "");
	EXPECT_TRUE(eventually([&] { return refusals(relay.errors()) == 2; }));
	peer::connect(address).receive_end();
	EXPECT_TRUE(eventually([&] { return relay.counter("denied") == 2; }));
	EXPECT_EQ(entries("deny"), 2U);
	EXPECT_EQ(relay.metric("lists_refused"), 1U);
	/* A missing file is an error, too, and counts as another change. */
	EXPECT_EQ(unlink((in / "allow").c_str()), 0);
	relay.await_error("allow: cannot be read: No such file or directory");
	EXPECT_EQ(relay.metric("lists_refused"), 1U);

	/* The file is written in place, without a new one. */
	std::ofstream(in / "allow") << "127.0.0.0/8\n::1\n";
	relay.await_error("key=allow_file file=" + in / "allow" + " entries=2");
	EXPECT_EQ(relay.metric("lists_refused"), 0U);
	EXPECT_EQ(entries("deny"), 0U);
	auto after = peer::sending("y", address);
	EXPECT_EQ(backend.accept().receive(1), "y");
	/* The connection from the beginning is still open. */
	before.send("z");
	EXPECT_EQ(before_there.receive(1), "z");
	/* The error is reported once for each change, not at each look at the files. */
	EXPECT_EQ(refusals(relay.stop().errors), 3U);
}

/* What keeps a file from being read may pass without a change of the file. */
TEST(Lists, AreTriedAgainAfterAShortage)
{
	listener backend;
	file list("# nobody\n");
	configured_relay relay("drain = 0\nadmin = \"127.0.0.1:0\"\n"
			       "[listeners.web]\naddress = \"127.0.0.1:0\"\ngroup = \"g\"\n"
			       "deny_file = \"" +
			       list.name() + "\"\n[groups.g]\nbackends = [\"" + backend.address() +
			       "\"]\n");
	relay.await_error(" serves");
	rlimit before{};
	ASSERT_EQ(prlimit(relay.pid(), RLIMIT_NOFILE, nullptr, &before), 0);
	const rlimit few{3, before.rlim_max};
	ASSERT_EQ(prlimit(relay.pid(), RLIMIT_NOFILE, &few, nullptr), 0);
	list.write("127.0.0.0/8\n");
	relay.await_error(list.name() + ": cannot be read: Too many open files");
	ASSERT_EQ(prlimit(relay.pid(), RLIMIT_NOFILE, &before, nullptr), 0);
	relay.await_error("lists_reread listener=web key=deny_file");
	EXPECT_EQ(relay.metric("lists_refused"), 0U);
	peer::connect(relay.address()).receive_end();
	EXPECT_TRUE(eventually([&] { return relay.counter("denied") == 1; }));
	EXPECT_EQ(refusals(relay.stop().errors), 1U);
}

TEST(Lists, AreTriedLessOftenTheLongerThatFails)
{
	relay::retries its;
	std::string looks;
	EXPECT_TRUE(its.is_due());
	EXPECT_TRUE(its.fail()) << "the first failure";
	while (looks.size() < 100) {
		const bool is_due = its.is_due();
		looks += is_due ? 'x' : '-';
		if (is_due)
			EXPECT_FALSE(its.fail());
	}
	EXPECT_EQ(looks.substr(0, 31), "x-x---x-------x---------------x");
	EXPECT_EQ(looks.substr(31), std::string(31, '-') + 'x' + std::string(31, '-') + "x-----");
	EXPECT_TRUE(its.is_failing());
	its.reset();
	EXPECT_FALSE(its.is_failing());
	EXPECT_TRUE(its.is_due());
	EXPECT_TRUE(its.fail());
}

/* A TLS hello that asks for a name of 9 characters. */
std::string hello(const std::string &name)
{
	using namespace std::string_literals;
	return "\x16\3\1\0\x41\1\0\0\x3d\3\3"s + std::string(32, 'r') + "\0\0\2\x13\1\1\0"s +
	       "\0\x12\0\0\0\x0e\0\x0c\0\0\x09"s + name;
}

TEST(Lists, OfNamesAreReadAgainWhenTheyChange)
{
	listener first;
	listener second;
	file one("a.example\n");
	file other("b.example\n");
	configured_relay relay(
		"drain = 0\n[listeners.web]\naddress = \"127.0.0.1:0\"\nsni_files = { \"" +
		one.name() + "\" = \"g\", \"" + other.name() +
		"\" = \"p\" }\n[groups.g]\nbackends = [\"" + first.address() +
		"\"]\n[groups.p]\nbackends = [\"" + second.address() + "\"]\n");
	const std::string address = relay.address();
	const auto expect_at = [&](listener &backend, const std::string &name) {
		auto client = peer::sending(hello(name), address);
		EXPECT_EQ(backend.accept().receive(hello(name).size()), hello(name));
	};
	expect_at(first, "a.example");
	expect_at(second, "b.example");
	/* One name moves to another list, and one is new. */
	one.write("c.example\n");
	other.write("b.example\na.example\n");
	relay.await_error("key=sni_files file=" + other.name() + " entries=2");
	expect_at(second, "a.example");
	expect_at(first, "c.example");
	EXPECT_EQ(relay.counter("no_route"), 0U);
	EXPECT_EQ(relay.stop().status, 0);
}

} // namespace
