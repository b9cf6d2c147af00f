// geofire's tests take their timers from a page's window.
(globalThis as any).window = { setTimeout, clearTimeout };
