import { JSDOM } from 'jsdom'

// React looks once, when it is loaded, whether there is a page: a test that types into fields imports this before React.
const { window } = new JSDOM('<!doctype html><body></body>', {
  url: 'http://localhost/',
  pretendToBeVisual: true,
})
Object.assign(globalThis, { window, document: window.document })
