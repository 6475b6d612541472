// \0rolldown/runtime.js
var e = (e, t) => () => (t || (e((t = { exports: {} }).exports, t, t.exports), e = null), t.exports), t = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")].react;
})), n = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["react-dom/client"];
})), r = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["oracle-runtime-client"];
})), i = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["oracle-runtime-client/memory"];
})), a = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["react/jsx-runtime"];
})), o = t(), s = n(), c = r(), l = i(), u = a(), d = (e, t) => {
	let n = (0, s.createRoot)(e);
	return n.render(/* @__PURE__ */ (0, u.jsx)(c.OracleClientProvider, {
		client: t.client,
		children: /* @__PURE__ */ (0, u.jsx)(p, { host: t })
	})), () => n.unmount();
}, f = {
	ask: "Ask me first",
	on: "On: use what is known, and notice more",
	paused: "Paused: use what is known, keep nothing new",
	off: "Off: use nothing, keep nothing"
};
function p({ host: e }) {
	let t = (0, l.useMemories)(e.oracleDid), n = (0, c.useMemoryEngine)(e.oracleDid), { error: r, query: i, setQuery: a, total: s, isLoading: d, refetch: p } = t;
	(0, o.useEffect)(() => void p().catch(() => {}), []);
	let [b] = e.route, x = r ?? n.error;
	return /* @__PURE__ */ (0, u.jsxs)(u.Fragment, { children: [
		/* @__PURE__ */ (0, u.jsx)("p", {
			className: "lead",
			children: "What you said of yourself, each with your own words. You can correct and erase all of it."
		}),
		x && /* @__PURE__ */ (0, u.jsx)("p", {
			role: "alert",
			children: x.message
		}),
		/* @__PURE__ */ (0, u.jsxs)("section", {
			className: "card",
			"aria-labelledby": "mode",
			children: [
				/* @__PURE__ */ (0, u.jsx)("h2", {
					id: "mode",
					children: "Mode"
				}),
				/* @__PURE__ */ (0, u.jsxs)("label", { children: ["How the oracle may remember you", /* @__PURE__ */ (0, u.jsx)("select", {
					value: n.mode ?? "ask",
					onChange: ({ target: t }) => void n.setMode(t.value).then(() => e.announce(`Memory: ${t.value}.`), () => {}),
					children: Object.entries(f).map(([e, t]) => /* @__PURE__ */ (0, u.jsx)("option", {
						value: e,
						children: t
					}, e))
				})] }),
				/* @__PURE__ */ (0, u.jsx)(h, {
					host: e,
					memories: t
				})
			]
		}),
		b !== void 0 && /* @__PURE__ */ (0, u.jsx)(g, {
			id: b,
			host: e,
			memories: t
		}, b),
		/* @__PURE__ */ (0, u.jsxs)("section", {
			className: "card",
			"aria-labelledby": "known",
			children: [
				/* @__PURE__ */ (0, u.jsxs)("h2", {
					id: "known",
					children: [
						"Known (",
						s,
						")"
					]
				}),
				/* @__PURE__ */ (0, u.jsxs)("label", { children: ["Search", /* @__PURE__ */ (0, u.jsx)("input", {
					type: "search",
					value: i,
					onChange: ({ target: e }) => a(e.value)
				})] }),
				s === 0 && !d && /* @__PURE__ */ (0, u.jsx)("p", { children: "Nothing is remembered here." }),
				/* @__PURE__ */ (0, u.jsx)("ul", {
					"aria-label": "Memories",
					children: t.memories.map((e) => /* @__PURE__ */ (0, u.jsxs)("li", { children: [
						/* @__PURE__ */ (0, u.jsx)("a", {
							href: `#/memory/${e.id}`,
							children: e.text
						}),
						" ",
						/* @__PURE__ */ (0, u.jsxs)("small", { children: [
							e.pinned && "pinned, ",
							e.slot ?? e.kind,
							", since ",
							m(e.validFrom)
						] })
					] }, e.id))
				}),
				/* @__PURE__ */ (0, u.jsx)(_, { memories: t }),
				/* @__PURE__ */ (0, u.jsx)("button", {
					type: "button",
					className: "quiet",
					onClick: () => void v(t),
					children: "Export"
				}),
				/* @__PURE__ */ (0, u.jsx)(y, {
					host: e,
					memories: t
				})
			]
		})
	] });
}
var m = (e) => new Date(e).toLocaleDateString();
function h({ host: e, memories: t }) {
	let { sessionId: n } = e, r = `/memory/sessions/${encodeURIComponent(n)}`, [i, a] = (0, o.useState)();
	return (0, o.useEffect)(() => {
		n && e.ask(r).then((e) => a(e.incognito), () => {});
	}, [r]), i === void 0 ? null : /* @__PURE__ */ (0, u.jsxs)("label", { children: [
		/* @__PURE__ */ (0, u.jsx)("input", {
			type: "checkbox",
			checked: i,
			onChange: ({ target: e }) => {
				a(e.checked), t.setIncognito(n, e.checked).catch(() => a(!e.checked));
			}
		}),
		" ",
		"Keep the open chat out of memory"
	] });
}
function g(e) {
	let { id: t, host: n, memories: r } = e, [i, a] = (0, o.useState)(), [s, c] = (0, o.useState)([]), [l, d] = (0, o.useState)(""), f = async () => {
		let e = await n.ask(`/memory/${encodeURIComponent(t)}`);
		if (a(e), e.slot === void 0) return;
		let r = (await n.ask("/memory?history=true&limit=200")).memories.filter(({ slot: t, about: n }) => t === e.slot && n === e.about);
		c(r.toSorted((e, t) => e.validFrom.localeCompare(t.validFrom)));
	};
	if ((0, o.useEffect)(() => void f().catch((e) => d(e.message)), [t]), !i) return /* @__PURE__ */ (0, u.jsx)("p", {
		role: "status",
		children: l || "Asking…"
	});
	let p = (e) => r.update(t, e).then(f, () => {});
	return /* @__PURE__ */ (0, u.jsxs)("section", {
		className: "card",
		"aria-labelledby": "one",
		children: [
			/* @__PURE__ */ (0, u.jsx)("h2", {
				id: "one",
				children: i.text
			}),
			/* @__PURE__ */ (0, u.jsx)("ul", {
				"aria-label": "Where it was said",
				children: i.allSources.map(({ sessionId: e, quote: t, at: r }, i) => /* @__PURE__ */ (0, u.jsxs)("li", { children: [
					"“",
					t,
					"” ",
					/* @__PURE__ */ (0, u.jsx)("small", { children: m(r) }),
					" ",
					e && /* @__PURE__ */ (0, u.jsx)("button", {
						type: "button",
						className: "quiet",
						onClick: () => n.session(e),
						children: "Open the chat"
					})
				] }, i))
			}),
			s.length > 1 && /* @__PURE__ */ (0, u.jsx)("ol", {
				"aria-label": "History",
				children: s.map((e) => /* @__PURE__ */ (0, u.jsxs)("li", { children: [
					e.text,
					" ",
					/* @__PURE__ */ (0, u.jsxs)("small", { children: [
						m(e.validFrom),
						" – ",
						e.validTo ? `until ${m(e.validTo)}` : "now"
					] })
				] }, e.id))
			}),
			/* @__PURE__ */ (0, u.jsxs)("form", {
				className: "row",
				onSubmit: (e) => {
					e.preventDefault();
					let t = new FormData(e.currentTarget).get("text");
					typeof t == "string" && t.trim() && p({ text: t });
				},
				children: [/* @__PURE__ */ (0, u.jsxs)("label", {
					className: "grow",
					children: ["Correct it", /* @__PURE__ */ (0, u.jsx)("input", {
						name: "text",
						defaultValue: i.text,
						maxLength: 240
					}, i.text)]
				}), /* @__PURE__ */ (0, u.jsx)("button", { children: "Save" })]
			}),
			/* @__PURE__ */ (0, u.jsx)("button", {
				type: "button",
				className: "quiet",
				onClick: () => void p({ pinned: !i.pinned }),
				children: i.pinned ? "Unpin" : "Pin"
			}),
			/* @__PURE__ */ (0, u.jsx)("button", {
				type: "button",
				className: "quiet",
				onClick: () => void r.remove(t).then(({ message: e }) => {
					n.announce(e), n.go();
				}, () => {}),
				children: "Erase"
			})
		]
	});
}
function _({ memories: e }) {
	let [t, n] = (0, o.useState)("");
	return /* @__PURE__ */ (0, u.jsxs)("form", {
		className: "row",
		onSubmit: (r) => {
			r.preventDefault(), e.add({ text: t }).then(() => n(""), () => {});
		},
		children: [/* @__PURE__ */ (0, u.jsxs)("label", {
			className: "grow",
			children: ["Remember a sentence", /* @__PURE__ */ (0, u.jsx)("input", {
				value: t,
				maxLength: 240,
				onChange: ({ target: e }) => n(e.value)
			})]
		}), /* @__PURE__ */ (0, u.jsx)("button", {
			disabled: !t.trim(),
			children: "Remember"
		})]
	});
}
async function v(e) {
	let t = await e.exportAll().catch(() => void 0);
	if (t === void 0) return;
	let n = document.createElement("a");
	n.href = URL.createObjectURL(new Blob([JSON.stringify(t, null, 2)])), n.download = "memory.json", n.click(), URL.revokeObjectURL(n.href);
}
function y({ host: e, memories: t }) {
	let [n, r] = (0, o.useState)(!1);
	if (!n) return /* @__PURE__ */ (0, u.jsx)("button", {
		type: "button",
		className: "quiet",
		onClick: () => r(!0),
		children: "Erase all…"
	});
	let i = async () => {
		r(!1);
		let { erased: n } = await t.removeAll();
		e.announce(`${n} memories are erased.`);
	};
	return /* @__PURE__ */ (0, u.jsxs)(u.Fragment, { children: [
		/* @__PURE__ */ (0, u.jsx)("span", { children: "Everything that is remembered of you goes." }),
		/* @__PURE__ */ (0, u.jsx)("button", {
			type: "button",
			onClick: () => void i().catch(() => {}),
			children: "Erase all"
		}),
		/* @__PURE__ */ (0, u.jsx)("button", {
			type: "button",
			className: "quiet",
			onClick: () => r(!1),
			children: "Keep it"
		})
	] });
}
export { d as default };
