import re,subprocess,sys
olds={}
for m in sys.argv[1:]:
    for l in open(m):
        l=l.split('#')[0].strip()
        if ':' in l and '=>' not in l:
            for p in l.split(':',1)[1].split(','):
                a,b=[x.strip() for x in p.split('->')]; olds.setdefault(a,set()).add(b)
for f in subprocess.check_output(['git','ls-files','*.py','*.patch'],text=True).split():
    if f.startswith('proto/python/subagents/'): continue
    try: t=open(f).read()
    except Exception: continue
    for i,l in enumerate(t.splitlines(),1):
        for a in olds:
            if a[0].isupper() and re.search(r"\)\.%s\b|[\"']%s[\"']|\b%s\(|class %s\b|[a-z_]\.%s\b"%((re.escape(a),)*5),l): print(f"{f}:{i}: {a}: {l.strip()[:110]}")
