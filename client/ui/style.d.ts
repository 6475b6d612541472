// The stylesheet has nothing to import by name: this lets `import 'oracle-runtime-client/ui/style.css'` compile.
export {}
