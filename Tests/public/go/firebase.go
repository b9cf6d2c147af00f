// Package firebase replaces the package of the same path: an app with a database alone. The other services of the real package need
// packages that the tests of the database do not use.
package firebase

import (
	"context"

	"firebase.google.com/go/v4/db"
	"firebase.google.com/go/v4/internal"
	"google.golang.org/api/option"
)

// Config has the options that the tests of the database set.
type Config struct {
	AuthOverride *map[string]interface{}
	DatabaseURL  string
}

// App opens the database.
type App struct {
	config internal.DatabaseConfig
}

// NewApp makes an app from a configuration.
func NewApp(_ context.Context, config *Config, options ...option.ClientOption) (*App, error) {
	app := &App{config: internal.DatabaseConfig{
		AuthOverride: map[string]interface{}{},
		Opts:         append([]option.ClientOption{option.WithScopes(internal.FirebaseScopes...)}, options...),
		URL:          config.DatabaseURL,
		Version:      "0.0.0",
	}}
	if config.AuthOverride != nil {
		app.config.AuthOverride = *config.AuthOverride
	}
	return app, nil
}

// Database returns a client of the configured database.
func (app *App) Database(ctx context.Context) (*db.Client, error) {
	config := app.config
	return db.NewClient(ctx, &config)
}
