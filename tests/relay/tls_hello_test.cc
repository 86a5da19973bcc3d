/* SPDX-License-Identifier: MIT */
/* Labels: memory */
/*
 * TLS hellos: those of OpenSSL, whole and cut into many records, and handmade ones that no library
 * would send. fuzz/relay/properties.hpp has the properties that hold for all of them.
 */
#include "wire/tls_hello.hpp"

#include "harness.hpp"
#include "relay/properties.hpp"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace std::string_literals;
using namespace std::string_view_literals;
using relay::parsed;
using relay::read_tls_hello;
using relay::tls_hello;

extern char **environ;

namespace
{

/* ---- made by hand ------------------------------------------------------------------------ */

std::string number(std::size_t value, std::size_t bytes)
{
	std::string out;
	while (bytes-- > 0)
		out += static_cast<char>(value >> 8 * bytes & 0xff);
	return out;
}

std::string vector(std::string_view value, std::size_t bytes)
{
	return number(value.size(), bytes).append(value);
}

std::string extension(unsigned type, std::string_view value)
{
	return number(type, 2) + vector(value, 2);
}

std::string names(std::string_view list)
{
	return extension(0, vector(list, 2));
}

std::string name(std::string_view text)
{
	return names("\0"s + vector(text, 2));
}

/* The handshake message; `what` is its type. */
std::string message(std::string_view extensions, bool with_extensions = true, char what = 1)
{
	std::string body = "\3\3" + std::string(32, 'r') + vector(std::string(32, 's'), 1) +
			   vector("\x13\x01\x13\x02"sv, 2) + vector("\0"sv, 1);
	if (with_extensions)
		body += vector(extensions, 2);
	return what + vector(body, 3);
}

/* The message in records of `size` bytes. */
std::string records(std::string_view all, std::size_t size = 16384)
{
	std::string out;
	for (; !all.empty(); all.remove_prefix(std::min(size, all.size())))
		out += "\x16\3\1" + vector(all.substr(0, size), 2);
	return out;
}

parsed read(std::string_view bytes, tls_hello &into)
{
	properties::tls_hello(bytes);
	return read_tls_hello(bytes, into);
}

/* The server name, or the error. */
std::string name_in(std::string_view bytes)
{
	tls_hello hello;
	const auto got = read(bytes, hello);
	return got ? "name: " + hello.name : got.why;
}

std::string name_of(std::string_view text)
{
	return name_in(records(message(name(text))));
}

TEST(TlsHello, NameIsLowerCaseWithoutATrailingDot)
{
	EXPECT_EQ(name_of("host.example"), "name: host.example");
	EXPECT_EQ(name_of("HoST.ExamPLE"), "name: host.example");
	EXPECT_EQ(name_of("host.example."), "name: host.example");
	EXPECT_EQ(name_of("xn--bcher-kva.example"), "name: xn--bcher-kva.example");
	EXPECT_EQ(name_of("_a-1.b"), "name: _a-1.b");
	EXPECT_EQ(name_of("localhost"), "name: localhost");
	EXPECT_EQ(name_of("192.0.2.1"), "name: 192.0.2.1");
	EXPECT_EQ(name_of(std::string(253, 'a')), "name: " + std::string(253, 'a'));
	EXPECT_EQ(name_of(std::string(253, 'a') + "."), "name: " + std::string(253, 'a'));
}

TEST(TlsHello, RefusesNamesThatNoHostCanHave)
{
	EXPECT_EQ(name_of(""), "TLS server name is empty");
	EXPECT_EQ(name_of("."), "TLS server name is empty");
	EXPECT_EQ(name_of(std::string(254, 'a')), "TLS server name is too long");
	for (const auto bad : {".a"sv, "a..b"sv, "a.."sv, "a b"sv, "a\0b"sv, "a\nb"sv, "a/b"sv,
			       "a\"b"sv, "\xc3\xbc"sv, "::1"sv, "a*"sv})
		EXPECT_EQ(name_of(bad), "TLS server name is malformed") << bad;
}

TEST(TlsHello, MayHaveNoName)
{
	EXPECT_EQ(name_in(records(message(""))), "name: ");
	EXPECT_EQ(name_in(records(message("", false))), "name: ");
	EXPECT_EQ(name_in(records(message(extension(23, "")))), "name: ");
	/* A name of a type other than host_name. */
	EXPECT_EQ(name_in(records(message(names("\1\0\3abc"sv)))), "name: ");
	EXPECT_EQ(name_in(records(message(names("\1\0\3abc\0\0\4host"sv)))), "name: host");
}

TEST(TlsHello, ReportsTheOfferedProtocols)
{
	tls_hello hello;
	const auto protocols = "\2h2\10http/1.1"s;
	ASSERT_TRUE(
		read(records(message(extension(16, vector(protocols, 2)) + name("a.b"))), hello));
	EXPECT_EQ(hello.alpn, protocols);
	EXPECT_EQ(hello.name, "a.b");
	for (const auto bad :
	     {""sv, "\0\0"sv, "\0\1\0"sv, "\0\3\2h"sv, "\0\3\2h2x"sv, "\0\2\2h2"sv})
		EXPECT_EQ(name_in(records(message(extension(16, bad)))),
			  "TLS protocol list (ALPN) is malformed");
}

TEST(TlsHello, MayBeCutIntoAnyRecords)
{
	const auto whole = message(extension(21, std::string(700, '\0')) + name("cut.example"));
	for (const std::size_t size : {1U, 2U, 3U, 4U, 5U, 100U, 512U, 16384U})
		EXPECT_EQ(name_in(records(whole, size)), "name: cut.example") << size;
	/* Bytes after the hello are ignored, in the same record or after it. */
	tls_hello hello;
	auto got = read(records(whole) + "\x17garbage", hello);
	EXPECT_TRUE(got);
	EXPECT_EQ(got.size, records(whole).size());
	got = read(records(whole + "more"), hello);
	EXPECT_TRUE(got);
	EXPECT_EQ(got.size, records(whole).size());
}

/* Each record needs a call. If each call looked at all records again, there would be more than
 * three million looks. */
TEST(TlsHello, EachOfManyRecordsIsLookedAtTwice)
{
	constexpr std::size_t header = 5;
	const auto all =
		records(message(name("host.example") + extension(21, std::string(2500, '\0'))), 1);
	relay::tls_hello_reader reader;
	tls_hello hello;
	parsed now = reader.read("", hello);
	while (now.is == parsed::state::more) {
		ASSERT_LE(now.size, all.size());
		now = reader.read(std::string_view(all).substr(0, now.size), hello);
	}
	ASSERT_TRUE(now) << now.why;
	EXPECT_EQ(hello.name, "host.example");
	EXPECT_EQ(now.size, all.size());
	EXPECT_LE(reader.looks(), 2 * (all.size() / (header + 1)) + 1);
}

TEST(TlsHello, CutOffIsNeitherBadNorComplete)
{
	const auto all = records(message(name("host.example")), 50);
	for (std::size_t n = 0; n < all.size(); n++) {
		tls_hello hello;
		const auto got = read_tls_hello(std::string_view(all).substr(0, n), hello);
		ASSERT_EQ(got.is, parsed::state::more) << n << got.why;
	}
}

TEST(TlsHello, RefusesMalformedRecords)
{
	const auto whole = message(name("host.example"));
	EXPECT_EQ(name_in("\x16\3\1\0\0"sv), "TLS record is malformed");
	EXPECT_EQ(name_in("\x16\3\1\x40\1"sv), "TLS record is malformed");
	EXPECT_EQ(name_in("\x16\3\1\0\4\2\0\0\0"sv),
		  "TLS handshake does not begin with a client's hello");
	EXPECT_EQ(name_in("\x16\3\1\0\4\1\0\0\1x"sv), "TLS hello is malformed");
	const auto cut = records(whole, 50);
	auto other = cut;
	other[55] = '\x15';
	EXPECT_EQ(name_in(other), "TLS hello is interrupted by another record");
	other = cut;
	other[56] = 2;
	EXPECT_EQ(name_in(other), "TLS record is malformed");
}

TEST(TlsHello, RefusesInconsistentLengths)
{
	/* Each byte of the message is increased by one, decreased by one, and changed by 127: the
	 * properties must hold. */
	const auto whole = message(extension(16, "\0\3\2h2"sv) + name("host.example"));
	for (std::size_t i = 0; i < whole.size(); i++)
		for (const int change : {-1, 1, 0x7f}) {
			auto changed = whole;
			changed[i] = static_cast<char>(changed[i] + change);
			properties::tls_hello(records(changed));
		}
	EXPECT_EQ(name_in(records(message(extension(0, "\0\1"sv)))),
		  "TLS server name extension is malformed");
	EXPECT_EQ(name_in(records(message(extension(0, "\0\0"sv)))),
		  "TLS server name extension is malformed");
	EXPECT_EQ(name_in(records(message(extension(0, "\0\4\0\0\2a"sv)))),
		  "TLS server name extension is malformed");
	EXPECT_EQ(name_in(records(message("\0\0\0\xff"sv))), "TLS extension is cut off");
	EXPECT_EQ(name_in(records(message("\0"sv))), "TLS extension is cut off");
	EXPECT_EQ(name_in(records(message(name("a") + name("b")))),
		  "TLS server name extension is given twice");
	EXPECT_EQ(name_in(records(message(names("\0\0\1a\0\0\1b"sv)))),
		  "TLS server name is given twice");
}

TEST(TlsHello, TooLargeIsRejectedAtOnce)
{
	tls_hello hello;
	/* The tenth byte shows that the hello is too large. */
	EXPECT_EQ(read("\x16\3\1\2\0\1\0\x40\0"sv, hello).is, parsed::state::bad);
	EXPECT_EQ(hello.is, tls_hello::other::too_large);
	/* The hello is cut into too many records. */
	const auto whole = message(extension(21, std::string(4000, '\0')) + name("host.example"));
	EXPECT_TRUE(read(records(whole), hello));
	EXPECT_EQ(read(records(whole, 1), hello).is, parsed::state::bad);
	EXPECT_EQ(hello.is, tls_hello::other::too_large);
	const auto exactly = records(whole).size();
	EXPECT_TRUE(read_tls_hello(records(whole), hello, exactly));
	EXPECT_FALSE(read_tls_hello(records(whole), hello, exactly - 1));
}

TEST(TlsHello, OtherProtocolsAreRejectedAtOnce)
{
	tls_hello hello;
	for (const auto bytes : {"G"sv, "GET / HTTP/1.1\r\n"sv, "\x16\2"sv, "SSH-2.0-x\r\n"sv,
				 "\0"sv, "\x80\x2e\2"sv, "PROXY TCP4 "sv}) {
		EXPECT_EQ(read(bytes, hello).is, parsed::state::bad) << bytes;
		EXPECT_EQ(hello.is, tls_hello::other::not_tls) << bytes;
	}
	EXPECT_EQ(read("\x80\x2e"sv, hello).is, parsed::state::more);
	EXPECT_EQ(read("\x80\x2e\1\3\1"sv, hello).is, parsed::state::bad);
	EXPECT_EQ(hello.is, tls_hello::other::ssl2);
}

/* ---- OpenSSL's --------------------------------------------------------------------------- */

/* The first bytes that `openssl s_client` sends. Reads them piece by piece until the hello is
 * complete, and never more than the parser asks for. */
std::string openssl_hello(std::vector<std::string> options, tls_hello &hello)
{
	harness::listener door;
	std::vector<std::string> words = {"openssl", "s_client", "-connect", door.address()};
	words.insert(words.end(), options.begin(), options.end());
	std::vector<char *> argv;
	for (auto &word : words)
		argv.push_back(word.data());
	argv.push_back(nullptr);

	posix_spawn_file_actions_t files;
	posix_spawn_file_actions_init(&files);
	for (const int fd : {0, 1, 2})
		posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
	pid_t pid = -1;
	const int err = posix_spawnp(&pid, "openssl", &files, nullptr, argv.data(), environ);
	posix_spawn_file_actions_destroy(&files);
	if (err != 0)
		throw std::runtime_error("cannot run openssl");

	std::string bytes;
	parsed now;
	{
		auto client = door.accept();
		while ((now = read_tls_hello(bytes, hello)).is == parsed::state::more)
			bytes += client.receive(now.size - bytes.size());
	}
	kill(pid, SIGTERM);
	waitpid(pid, nullptr, 0);
	EXPECT_TRUE(now) << now.why;
	EXPECT_EQ(now.size, bytes.size());
	properties::tls_hello(bytes);
	return bytes;
}

TEST(TlsHello, OpensslHellosOfEveryVersionAreRead)
{
	tls_hello hello;
	for (const char *version : {"-tls1_2", "-tls1_3", "-no_tls1_3"}) {
		openssl_hello({version, "-servername", "Some.Host.Example"}, hello);
		EXPECT_EQ(hello.name, "some.host.example") << version;
		openssl_hello({version, "-noservername"}, hello);
		EXPECT_EQ(hello.name, "") << version;
	}
	openssl_hello({"-servername", "a.example", "-alpn", "h2,http/1.1"}, hello);
	EXPECT_EQ(hello.name, "a.example");
	EXPECT_EQ(hello.alpn, "\2h2\10http/1.1");
}

TEST(TlsHello, OpensslHellosInManyRecordsAreRead)
{
	tls_hello hello;
	std::string many;
	for (int i = 0; i < 200; i++)
		many += (i ? ",protocol-" : "protocol-") + std::to_string(i);
	const auto bytes = openssl_hello({"-servername", "cut.example", "-alpn", many,
					  "-max_send_frag", "512", "-split_send_frag", "512"},
					 hello);
	EXPECT_EQ(hello.name, "cut.example");
	EXPECT_GT(bytes.size(), 2000U);
	/* The hello was indeed cut. */
	EXPECT_EQ(static_cast<unsigned char>(bytes[3]) << 8 | static_cast<unsigned char>(bytes[4]),
		  512);
}

} // namespace
