// \0rolldown/runtime.js
var e = (e, t) => () => (t || (e((t = { exports: {} }).exports, t, t.exports), e = null), t.exports), t = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")].react;
})), n = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["react-dom/client"];
})), r = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["oracle-runtime-client"];
})), i = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["oracle-runtime-client/live-agent"];
})), a = /* @__PURE__ */ e(((e, t) => {
	t.exports = globalThis[Symbol.for("oracle-runtime.page")]["react/jsx-runtime"];
})), o = t(), s = n(), c = r(), l = i(), u = a(), d = (e, t) => {
	let n = (0, s.createRoot)(e);
	return n.render(/* @__PURE__ */ (0, u.jsx)(c.OracleClientProvider, {
		client: t.client,
		children: /* @__PURE__ */ (0, u.jsx)(h, { host: t })
	})), () => n.unmount();
}, f = {
	idle: "No call.",
	connecting: "Connecting …",
	listening: "Listening.",
	thinking: "Thinking …",
	speaking: "Speaking.",
	held: "Paused: you are speaking.",
	waiting: "Waits for your decision.",
	ended: "The call is over."
}, p = {
	user: "You hung up.",
	agent: "The oracle hung up.",
	idle: "Nobody said a word, so the oracle hung up.",
	limit: "The time of the call was used up.",
	lost: "The connection was lost.",
	replaced: "The call goes on elsewhere.",
	server: "The server ended the call.",
	session: "The conversation was deleted."
}, m = {
	did: "The key that stands in the oracle’s DID has signed this connection.",
	document: "A key of the oracle’s DID document has signed this connection.",
	origin: "A key that this server names has signed this connection; only the server vouches for it."
};
function h({ host: e }) {
	let t = (0, l.useLiveAgent)(e.oracleDid), [n, r] = (0, o.useState)(""), i = (0, o.useRef)(e.sessionId), a = async (n, a = "audio") => {
		r("");
		try {
			i.current ||= (await e.ask("/sessions", {
				method: "POST",
				body: {}
			})).sessionId, await t.callAgent({
				callType: a,
				microphone: n,
				sessionId: i.current,
				userDid: e.client.wallet.did,
				language: e.locale.slice(0, 2),
				...t.consent !== void 0 && { consent: t.consent }
			});
		} catch (e) {
			r(e.message);
		}
	}, s = t.error?.message ?? n, { code: c } = t.error ?? {};
	return c === "plugin_not_available" ? /* @__PURE__ */ (0, u.jsx)("p", {
		role: "alert",
		children: s
	}) : /* @__PURE__ */ (0, u.jsxs)(u.Fragment, { children: [
		/* @__PURE__ */ (0, u.jsx)("p", {
			className: "lead",
			children: "Talk with the oracle. Sound is encrypted between this page and the oracle."
		}),
		s !== "" && /* @__PURE__ */ (0, u.jsx)("p", {
			role: "alert",
			children: s
		}),
		t.sessionStarted ? /* @__PURE__ */ (0, u.jsx)(y, { agent: t }) : /* @__PURE__ */ (0, u.jsx)(g, {
			agent: t,
			call: (...e) => void a(...e)
		}),
		/* @__PURE__ */ (0, u.jsx)(C, { captions: t.captions }),
		t.endedBy !== null && !t.sessionStarted && /* @__PURE__ */ (0, u.jsxs)("p", {
			role: "status",
			children: [
				p[t.endedBy] ?? f.ended,
				" ",
				i.current !== "" && /* @__PURE__ */ (0, u.jsx)("button", {
					type: "button",
					className: "quiet",
					onClick: () => e.session(i.current),
					children: "Open the conversation"
				})
			]
		})
	] });
}
function g({ agent: e, call: t }) {
	let { hearing: n, voice: r, consent: i } = e, [a, s] = (0, o.useState)(!1);
	if (!n || !r) return e.error ? null : /* @__PURE__ */ (0, u.jsx)("p", {
		role: "status",
		children: "Asking the oracle …"
	});
	let c = i === void 0 || a;
	return /* @__PURE__ */ (0, u.jsxs)("section", {
		className: "card",
		"aria-labelledby": "where",
		children: [
			/* @__PURE__ */ (0, u.jsx)("h2", {
				id: "where",
				children: "Where the sound goes"
			}),
			/* @__PURE__ */ (0, u.jsxs)("ul", { children: [
				/* @__PURE__ */ (0, u.jsx)("li", { children: _(n) }),
				/* @__PURE__ */ (0, u.jsx)("li", { children: v(r) }),
				/* @__PURE__ */ (0, u.jsx)("li", { children: "Nothing is recorded. The words become messages of your conversation." })
			] }),
			i !== void 0 && /* @__PURE__ */ (0, u.jsxs)("label", {
				className: "check",
				children: [
					/* @__PURE__ */ (0, u.jsx)("input", {
						type: "checkbox",
						checked: a,
						onChange: ({ target: e }) => s(e.checked)
					}),
					"I allow that my words or my voice go to",
					" ",
					i.replace("browser", "the maker of this browser"),
					"."
				]
			}),
			/* @__PURE__ */ (0, u.jsxs)("div", {
				className: "row",
				children: [
					/* @__PURE__ */ (0, u.jsx)("button", {
						type: "button",
						disabled: !c,
						onClick: () => t(!0),
						children: "Call"
					}),
					e.hasVideo && /* @__PURE__ */ (0, u.jsx)("button", {
						type: "button",
						className: "quiet",
						disabled: !c,
						onClick: () => t(!0, "video"),
						children: "Call with camera"
					}),
					/* @__PURE__ */ (0, u.jsx)("button", {
						type: "button",
						className: "quiet",
						onClick: () => t(!1),
						children: "Call without a microphone"
					})
				]
			})
		]
	});
}
function _({ by: e, where: t, name: n }) {
	return e === "typed" ? "Your words are typed: nothing here turns speech into text." : e === "browser" ? t === "device" ? "This browser turns your speech into text, on this device." : "This browser turns your speech into text, and may send your voice to its maker for it." : t === "server" ? `The oracle’s own server turns your speech into text (${n}).` : `Your speech goes to ${n}, which turns it into text.`;
}
function v({ by: e, where: t, name: n }) {
	return e === "none" ? "The answers are shown as captions: nothing here speaks them." : e === "browser" ? "This browser speaks the answers, on this device." : t === "server" ? `The oracle’s own server speaks the answers (${n}).` : `The answers go to ${n}, which speaks them.`;
}
function y({ agent: e }) {
	let { state: t, seconds: n, isMuted: r, isCameraOn: i, security: a, approval: o, notice: s } = e, c = () => {};
	return /* @__PURE__ */ (0, u.jsxs)("section", {
		className: "card",
		"aria-labelledby": "call",
		children: [
			/* @__PURE__ */ (0, u.jsx)("h2", {
				id: "call",
				children: "Call"
			}),
			/* @__PURE__ */ (0, u.jsxs)("p", { children: [
				/* @__PURE__ */ (0, u.jsx)("span", {
					role: "status",
					children: f[t]
				}),
				" ",
				/* @__PURE__ */ (0, u.jsx)(b, { seconds: n })
			] }),
			/* @__PURE__ */ (0, u.jsx)(x, { agent: e }),
			/* @__PURE__ */ (0, u.jsxs)("div", {
				className: "row",
				children: [
					/* @__PURE__ */ (0, u.jsx)("button", {
						type: "button",
						className: "stop",
						onClick: () => void e.endCall(),
						children: "Hang up"
					}),
					/* @__PURE__ */ (0, u.jsxs)("button", {
						type: "button",
						className: "quiet",
						"aria-pressed": !r,
						onClick: () => void e.setMuted(!r).catch(c),
						children: ["Microphone ", r ? "off" : "on"]
					}),
					i !== void 0 && e.hasVideo && /* @__PURE__ */ (0, u.jsxs)("button", {
						type: "button",
						className: "quiet",
						"aria-pressed": i,
						onClick: () => void e.setCamera(!i).catch(c),
						children: ["Camera ", i ? "on" : "off"]
					}),
					/* @__PURE__ */ (0, u.jsx)("button", {
						type: "button",
						className: "quiet",
						disabled: t !== "speaking",
						onClick: e.interrupt,
						children: "Be quiet"
					})
				]
			}),
			s && /* @__PURE__ */ (0, u.jsx)("p", {
				role: "alert",
				children: s.text
			}),
			o && /* @__PURE__ */ (0, u.jsxs)("div", {
				className: "card",
				role: "group",
				"aria-label": "Your decision",
				children: [
					/* @__PURE__ */ (0, u.jsxs)("p", { children: [
						"The oracle would like to use ",
						/* @__PURE__ */ (0, u.jsx)("code", { children: o.toolName }),
						":"
					] }),
					/* @__PURE__ */ (0, u.jsx)("pre", { children: JSON.stringify(o.args, null, 2) }),
					/* @__PURE__ */ (0, u.jsxs)("div", {
						className: "row",
						children: [/* @__PURE__ */ (0, u.jsx)("button", {
							type: "button",
							onClick: () => void e.decide("approve").catch(c),
							children: "Approve"
						}), /* @__PURE__ */ (0, u.jsx)("button", {
							type: "button",
							className: "quiet",
							onClick: () => void e.decide("reject").catch(c),
							children: "Reject"
						})]
					})
				]
			}),
			/* @__PURE__ */ (0, u.jsx)(S, { agent: e }),
			e.hearing && e.voice && /* @__PURE__ */ (0, u.jsxs)("p", {
				className: "faint",
				children: [
					r ? "Your microphone is off." : _(e.hearing),
					" ",
					v(e.voice)
				]
			}),
			a && /* @__PURE__ */ (0, u.jsxs)("p", {
				className: "faint",
				children: [
					m[a.verifiedBy],
					" Its certificate:",
					" ",
					/* @__PURE__ */ (0, u.jsx)("code", {
						className: "break",
						children: a.fingerprint
					})
				]
			})
		]
	});
}
function b({ seconds: e }) {
	let t = (e) => String(e).padStart(2, "0");
	return /* @__PURE__ */ (0, u.jsxs)("span", {
		className: "faint",
		children: [
			t(Math.floor(e / 60)),
			":",
			t(e % 60)
		]
	});
}
function x({ agent: { levels: e } }) {
	let t = (0, o.useRef)(null), n = (0, o.useRef)(null);
	return (0, o.useEffect)(() => {
		let r = setInterval(() => {
			let r = e();
			t.current && (t.current.value = Math.min(1, r.you * 4)), n.current && (n.current.value = Math.min(1, r.agent * 4));
		}, 100);
		return () => clearInterval(r);
	}, [e]), /* @__PURE__ */ (0, u.jsxs)("p", {
		className: "row",
		children: [/* @__PURE__ */ (0, u.jsxs)("label", { children: ["You ", /* @__PURE__ */ (0, u.jsx)("meter", {
			ref: t,
			min: 0,
			max: 1,
			"aria-label": "How loud you are"
		})] }), /* @__PURE__ */ (0, u.jsxs)("label", { children: ["Oracle ", /* @__PURE__ */ (0, u.jsx)("meter", {
			ref: n,
			min: 0,
			max: 1,
			"aria-label": "How loud the oracle is"
		})] })]
	});
}
function S({ agent: e }) {
	let [t, n] = (0, o.useState)("");
	return /* @__PURE__ */ (0, u.jsxs)("form", {
		className: "row",
		onSubmit: (r) => {
			r.preventDefault(), t.trim() !== "" && (e.say(t), n(""));
		},
		children: [/* @__PURE__ */ (0, u.jsxs)("label", {
			className: "field grow",
			children: ["Say it in writing", /* @__PURE__ */ (0, u.jsx)("input", {
				value: t,
				autoComplete: "off",
				disabled: !e.isReady,
				onChange: ({ target: e }) => n(e.value)
			})]
		}), /* @__PURE__ */ (0, u.jsx)("button", {
			disabled: !e.isReady,
			children: "Say"
		})]
	});
}
function C({ captions: e }) {
	if (e.length === 0) return null;
	let t = e.at(-1), n = t?.isFinal === !1 ? t : void 0;
	return /* @__PURE__ */ (0, u.jsxs)("section", {
		className: "card",
		"aria-labelledby": "captions",
		children: [
			/* @__PURE__ */ (0, u.jsx)("h2", {
				id: "captions",
				children: "Captions"
			}),
			/* @__PURE__ */ (0, u.jsx)("div", {
				role: "log",
				"aria-labelledby": "captions",
				children: e.filter(({ isFinal: e }) => e).map(({ id: e, who: t, text: n }) => /* @__PURE__ */ (0, u.jsxs)("p", { children: [
					/* @__PURE__ */ (0, u.jsxs)("b", { children: [t === "you" ? "You" : "Oracle", ":"] }),
					" ",
					/* @__PURE__ */ (0, u.jsx)("span", {
						dir: "auto",
						children: n
					})
				] }, `${t} ${e}`))
			}),
			n && /* @__PURE__ */ (0, u.jsxs)("p", {
				"aria-hidden": "true",
				className: "faint",
				children: [n.text, " …"]
			})
		]
	});
}
export { d as default };
