"""rename.py MAP: in the current tree. Lines: `suffix.py: Old -> New, Old2 -> New2` and `old.py => new.py`. '#' comments."""
import ast, io, re, subprocess, sys, tokenize
from pathlib import Path
ROOT=Path.cwd()
files=[Path(f) for f in subprocess.check_output(["git","ls-files","*.py"],text=True).split() if not f.startswith("proto/python/subagents/")]
src={f:f.read_text() for f in files}
OWN=["proto/python/","clients/python/","clients/evals/","clients/langchain/","clients/loadgen/","clients/openai_agents/","plugins/conformance/","plugins/gates_http/","plugins/gates_manifest/","plugins/lifecycle_examples/","plugins/runner_langchain/"]
OWN+=[str(p)+"/" for p in Path("plugins").iterdir() if p.is_dir()]
def dotted(f):
    s=str(f)
    for o in OWN:
        if s.startswith(o): s=s[len(o):]; break
    s=s[:-3].replace("/",".")
    return s[:-9] if s.endswith(".__init__") else s
mod={f:dotted(f) for f in files}
bymod={m:f for f,m in mod.items()}
renames=[];moves=[]
for line in open(sys.argv[1]):
    line=line.split("#")[0].strip()
    if not line: continue
    if "=>" in line:
        a,b=[x.strip() for x in line.split("=>")]; moves.append((a,b)); continue
    suffix,rest=line.split(":",1)
    for pair in rest.split(","):
        a,b=[x.strip() for x in pair.split("->")]; renames.append((suffix.strip(),a,b))
def top(f,name):
    try: t=ast.parse(src[f])
    except SyntaxError: return False
    for n in t.body:
        if isinstance(n,(ast.ClassDef,ast.FunctionDef,ast.AsyncFunctionDef)) and n.name==name: return True
        if isinstance(n,ast.Assign) and any(isinstance(x,ast.Name) and x.id==name for x in n.targets): return True
        if isinstance(n,ast.AnnAssign) and isinstance(n.target,ast.Name) and n.target.id==name: return True
        if hasattr(ast,"TypeAlias") and isinstance(n,ast.TypeAlias) and n.name.id==name: return True
    return False
plan={} # file -> {old:new}
imap={} # file -> {(module,old):new}
def exporters(f,name):
    """files that import name from f's module, transitively re-exported"""
    out=[];todo=[mod[f]];seen=set(todo)
    while todo:
        m=todo.pop()
        for g in files:
            if m.rsplit(".",1)[-1] not in src[g] or name not in src[g]: continue
            for n in imports(g):
                if n[0]==m and n[1]==name:
                    out.append(((g,n[2]),m))
                    if n[2] in (None,name) and mod[g] not in seen: seen.add(mod[g]); todo.append(mod[g])
    return out
_imp={}
def imports(g):
    if g not in _imp:
        r=[]
        for n in ast.walk(ast.parse(src[g])):
            if isinstance(n,ast.ImportFrom):
                base=n.module or ""
                if n.level:
                    pk=mod[g].split(".") if g.name=="__init__.py" else mod[g].split(".")[:-1]
                    pk=pk[:len(pk)-(n.level-1)]; base=".".join(pk+([n.module] if n.module else []))
                for a in n.names: r.append((base,a.name,a.asname))
        _imp[g]=r
    return _imp[g]
missing=[]
doc=[]
for suffix,a,b in renames:
    hit=[f for f in files if str(f).endswith(suffix) and top(f,a)]
    if len(hit)!=1: missing.append((suffix,a,[str(h) for h in hit])); continue
    f=hit[0]
    plan.setdefault(f,{})[a]=b
    for (g,alias),m in exporters(f,a):
        imap.setdefault(g,{})[(m,a)]=b
        if alias in (None,a): plan.setdefault(g,{})[a]=b
        else: plan.setdefault(g,{})
        last2=m.rsplit(".",1)
        if len(last2)==2:
            for h in files:
                if any(i[0]==last2[0] and i[1]==last2[1] for i in imports(h)): plan.setdefault(h,{}); doc.append((h,last2[1],a,b))
    # module attribute use: from pkg import module; module.Old
    last=mod[f].rsplit(".",1)
    for g in files:
        if len(last)==2 and any(i[0]==last[0] and i[1]==last[1] for i in imports(g)):
            plan.setdefault(g,{}); doc.append((g,last[1],a,b))
uniq={}
for _s,a,b in renames: uniq.setdefault(a,set()).add(b)
for g in files:
    if str(g).startswith("sidecar/cli/"): plan.setdefault(g,{})
attr={}
for g,m,a,b in doc: attr.setdefault(g,{})[(m,a)]=b
def apply(f,mp,at):
    text=src[f]; lines=text.splitlines(keepends=True)
    toks=list(tokenize.generate_tokens(io.StringIO(text).readline))
    edits=[]
    ranges=[]
    alls=[((n.lineno,0),(n.end_lineno,999)) for n in ast.parse(text).body if isinstance(n,ast.Assign) and any(isinstance(x,ast.Name) and x.id=="__all__" for x in n.targets)]
    for n in ast.walk(ast.parse(text)):
        if isinstance(n,ast.ImportFrom):
            base=n.module or ""
            if n.level:
                pk=mod[f].split(".") if f.name=="__init__.py" else mod[f].split(".")[:-1]
                pk=pk[:len(pk)-(n.level-1)]; base=".".join(pk+([n.module] if n.module else []))
            ranges.append(((n.lineno,n.col_offset),(n.end_lineno,n.end_col_offset),base))
    im=imap.get(f,{})
    shadow=[]
    lower={a for a in mp if a[0].islower() or a[0]=="_"}
    if lower:
        for n in ast.walk(ast.parse(text)):
            if isinstance(n,(ast.FunctionDef,ast.AsyncFunctionDef,ast.Lambda,ast.ListComp,ast.SetComp,ast.DictComp,ast.GeneratorExp)):
                bound=set()
                if hasattr(n,"args"):
                    bound|={x.arg for x in [*n.args.args,*n.args.posonlyargs,*n.args.kwonlyargs,*( [n.args.vararg] if n.args.vararg else []),*([n.args.kwarg] if n.args.kwarg else [])]}
                todo=list(ast.iter_child_nodes(n))
                while todo:
                    c=todo.pop()
                    if isinstance(c,ast.Name) and isinstance(c.ctx,ast.Store): bound.add(c.id)
                    if isinstance(c,(ast.FunctionDef,ast.AsyncFunctionDef,ast.ClassDef)): bound.add(c.name); continue
                    if isinstance(c,ast.ExceptHandler) and c.name: bound.add(c.name)
                    todo+=ast.iter_child_nodes(c)
                for a in bound&lower: shadow.append(((n.lineno,n.col_offset),(n.end_lineno,n.end_col_offset),a))
        for n in ast.walk(ast.parse(text)):
            if isinstance(n,ast.ClassDef):
                for c in n.body:
                    if isinstance(c,(ast.FunctionDef,ast.AsyncFunctionDef)) and c.name in lower:
                        shadow.append(((c.lineno,0),(c.lineno,len("async def ")+c.col_offset+len(c.name)+1),c.name))
                    if isinstance(c,ast.AnnAssign) and isinstance(c.target,ast.Name) and c.target.id in lower: shadow.append(((c.lineno,0),(c.lineno,c.col_offset+len(c.target.id)),c.target.id))
    for i,t in enumerate(toks):
        if t.type==tokenize.NAME:
            r=next((r for r in ranges if r[0]<=t.start<r[1]),None)
            if r:
                if (r[2],t.string) in im and toks[i-1].string!="as": edits.append((t.start,t.end,im[(r[2],t.string)]))
                continue
            prev=toks[i-1] if i else None
            if prev and prev.string=="." and not _relimport(toks,i):
                pp=toks[i-2].string
                if pp==")" and t.string[0].isupper() and len(uniq.get(t.string,()))==1 and toks[i+1].string=="(": edits.append((t.start,t.end,next(iter(uniq[t.string])))); continue
                if (pp,t.string) in at: edits.append((t.start,t.end,at[(pp,t.string)]))
                continue
            if t.string in lower and any(a==t.string and x<=t.start<y for x,y,a in shadow): continue
            if t.string in mp:
                if t.string in lower and toks[i+1].string=="=" and prev and prev.string in ("(",","):
                    continue
                nxt=toks[i+1].string if i+1<len(toks) else ""
                if nxt=="=" and prev and prev.string in ("(",",") and t.string[0].islower(): print("kwarg?",f,t.start,t.string)
                edits.append((t.start,t.end,mp[t.string]))
        elif t.type==tokenize.STRING or t.type==tokenize.COMMENT:
            new=t.string
            isf=t.type==tokenize.STRING and "f" in re.match(r"[a-zA-Z]*",t.string).group(0).lower()
            in_all=t.type==tokenize.STRING and any(x<=t.start<y for x,y in alls)
            for a,b in mp.items():
                if in_all and t.string.strip("\"'")==a: new=new.replace(a,b)
                if isf: new=re.sub(r"\{[^{}]*\}",lambda m:re.sub((r"(?<![\w.])%s\b(?=\()" if a[0].islower() else r"(?<![\w.])%s\b")%re.escape(a),b,m.group(0)),new)
                new=re.sub(r"`%s(?=[`.(])"%re.escape(a),"`"+b,new)
                if t.type==tokenize.STRING and not t.string.lstrip("rbfuRBFU").startswith(('"""',"'''")):
                    if a[0].isupper() and re.fullmatch(r"[\"'][\w.\[\], |()]*[\"']",t.string) and (" " not in t.string or "|" in t.string or "[" in t.string or ", " in t.string and re.search("test_",str(f)) is None) and (next(x for x in reversed(toks[:i]) if x.type not in (tokenize.NL,tokenize.COMMENT)).string in (":","->","|",",","[","(") ): new=re.sub(r"(?<![\w.])%s\b"%re.escape(a),b,new)
                    elif f.parts[0]!="tests" or True:
                        if a[0].isupper(): new=re.sub(r"(?<=[\w\]]\.)%s\b"%re.escape(a),b,new)
            if new!=t.string: edits.append((t.start,t.end,new))
    for (r1,c1),(r2,c2),new in sorted(edits,reverse=True):
        if r1==r2: l=lines[r1-1]; lines[r1-1]=l[:c1]+new+l[c2:]
        else:
            head=lines[r1-1][:c1]; tail=lines[r2-1][c2:]
            lines[r1-1:r2]=(head+new+tail).splitlines(keepends=True)
    return "".join(lines)
def _relimport(toks,i): return False
n=0
old_src=dict(src)
for f,mp in plan.items():
    new=apply(f,mp,attr.get(f,{}))
    if new!=src[f]: src[f]=new; f.write_text(new); n+=1
# planted defects: lines of a patch that concern a file of the plan
for p in Path("tests").rglob("*.patch"):
    t=p.read_text(); out=[]; cur={}
    for line in t.splitlines(keepends=True):
        m=re.match(r"(?:---|\+\+\+) [ab]/(\S+)",line)
        if m: cur=plan.get(Path(m.group(1)),{})
        elif line[:1] in "+- @" and cur:
            for a,b in cur.items():
                body=line
                if a[0].isupper():
                    # skip prose: capitalised word followed by a lower-case word and a space
                    body=re.sub(r"(?<![\w.`\"])%s(?=[\[\](),.:|=\s]|$)"%re.escape(a),lambda m:b if not re.match(r" [a-z]",body[m.end():m.end()+2]) or re.search(r"(import|class|->|:|\|) ?$",body[:m.start()]) or body[m.end():m.end()+3]in(" if"," = ") else m.group(0),body)
                else: body=re.sub(r"(?<![\w.])%s\b(?=\()"%re.escape(a),b,body); body=re.sub(r"(import .*)\b%s\b"%re.escape(a),lambda m:m.group(1)+b,body)
                body=re.sub(r"`%s(?=[`.(])"%re.escape(a),"`"+b,body)
                line=body
        out.append(line)
    new="".join(out)
    if new!=t: p.write_text(new)
# pages: names in backticks, unique ones only
cnt={}
for s,a,b in renames: cnt.setdefault(a,set()).add(b)
for p in [Path(x) for x in subprocess.check_output(["git","ls-files","*.md","*.proto","*.toml"],text=True).split()]:
    if p.name in("CHANGELOG.md","DECISIONS.md","glossary.md"): continue
    t=p.read_text(); new=t
    for a,bs in cnt.items():
        if len(bs)==1 and (a[0].isupper() or "_" in a): new=re.sub(r"`%s(?=[`.(])"%re.escape(a),"`"+next(iter(bs)),new)
    if new!=t: p.write_text(new)
# moves
texts=None
for a,b in moves:
    if not Path(a).exists(): missing.append((a,"move",[])); continue
    if Path(b).exists(): missing.append((b,"exists",[])); continue
    Path(b).parent.mkdir(parents=True,exist_ok=True)
    subprocess.check_call(["git","mv",a,b])
    ma,mb=dotted(Path(a)),dotted(Path(b))
    pa,la=ma.rsplit(".",1); pb,lb=mb.rsplit(".",1)
    every=subprocess.check_output(["git","ls-files","*.py","*.md","*.patch","*.toml","*.proto","*.json","Makefile","*.txt"],text=True).split()
    for g in every:
        p=Path(g)
        if not p.exists() or p.name in("CHANGELOG.md","DECISIONS.md"): continue
        try: t=p.read_text()
        except UnicodeDecodeError: continue
        if la not in t: continue
        new=re.sub(r"\b%s\b(?!\.py)"%re.escape(ma),mb,t)
        tail_a="/".join(Path(a).parts[-2:]); tail_b="/".join(Path(b).parts[-2:])
        new=new.replace(a,b)
        if g.endswith(".md") or g.endswith(".py"): new=re.sub(r"(?<![\w])%s\b"%re.escape(tail_a),tail_b,new)
        if g.endswith(".py"):
            def imp(m):
                body=m.group(2); 
                return m.group(1)+re.sub(r"\b%s\b"%re.escape(la),lb,body)
            new2=re.sub(r"(from %s import )(\([^)]*\)|.*)"%re.escape(pa),imp,new)
            if new2!=new and pa==pb:
                # module used as a name: rename NAME tokens
                out=new2; toks=list(tokenize.generate_tokens(io.StringIO(out).readline)); ls=out.splitlines(keepends=True); ed=[]
                for i,tk in enumerate(toks):
                    if tk.type==tokenize.NAME and tk.string==la and toks[i+1].string=="." and (i==0 or toks[i-1].string!="."): ed.append((tk.start,tk.end))
                for (r,c),(r2,c2) in sorted(ed,reverse=True): ls[r-1]=ls[r-1][:c]+lb+ls[r-1][c2:]
                new2="".join(ls)
            new=new2
        if new!=t: p.write_text(new)
print("changed",n,"files; missing:")
for m in missing: print("  ",m)
